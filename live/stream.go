package live

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// events streams server-sent events: first hello, then all, and then with each survey what has changed.
func (v *View) events(w http.ResponseWriter, r *http.Request) {
	if !flushes(w) {
		refuse(w, http.StatusNotImplemented, "the server's ResponseWriter cannot stream: it has no Flush and no Unwrap")
		return
	}
	place := &seat{time.Now(), make(chan struct{})}
	leave, err := v.enter(place)
	if err != nil {
		unavailable(w, err)
		return
	}
	defer leave()
	s := newStream(w, r)
	hello := v.hello
	if v.options.Allow != nil && v.options.Allow(r) {
		hello = v.helloAllowed
	}
	err = s.send(hello)
	for seen := (*frame)(nil); err == nil; {
		f := v.await(r.Context(), seen, place.over)
		if f == nil {
			s.end()
			return
		}
		if seen != nil && seen.number+1 == f.number {
			err = s.send(f.some)
		} else { // a viewer that is slow has missed some
			err = s.send(f.all())
		}
		seen = f
	}
}

// A message is an event that all viewers are sent. It is made once, and compressed once: what each viewer costs does
// not depend on how much there is to show.
type message struct {
	text   []byte
	zipped func() []byte // what deflated returns
}

// messageOf returns an event of that name. JSON has no line breaks.
func messageOf(name string, data ...[]byte) message {
	text := slices.Concat([]byte("event: "+name+"\ndata: "), bytes.Join(data, nil), []byte("\n\n"))
	return message{text, sync.OnceValue(func() []byte { return deflated(text) })}
}

// deflated returns a text as blocks of RFC 1951 which end with a byte and refer to nothing before them: they may stand
// behind any others.
func deflated(text []byte) []byte {
	var out bytes.Buffer
	zip, err := flate.NewWriter(&out, flate.BestSpeed)
	if err == nil {
		if _, err = zip.Write(text); err == nil {
			err = zip.Flush()
		}
	}
	if err != nil {
		panic("live: " + err.Error()) // there is such a level, and a buffer takes all
	}
	return slices.Clip(out.Bytes())
}

// A stream is what one viewer is sent. Compressed, it is one member of a gzip file, RFC 1952, around the blocks of its
// messages.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	zip     bool
	sum     uint32 // CRC-32 of what was sent, before it was compressed
	size    uint32
	begun   bool
}

// newStream begins a stream. Nothing is written. The server's timeouts are for requests that end, so from here on each
// message has its own; where they cannot be changed there are none.
func newStream(w http.ResponseWriter, r *http.Request) *stream {
	s := &stream{w: w, control: http.NewResponseController(w), zip: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")}
	_ = s.control.SetReadDeadline(time.Time{})
	unlimited(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	if s.zip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	return s
}

// flushes reports whether a ResponseWriter can be flushed. http.ResponseController would tell, but only by flushing.
func flushes(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

// gzipHeader says that what follows is deflated, and nothing else: no name, no time, an unknown system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// send has the viewer accept a message.
func (s *stream) send(m message) error {
	limit(s.w)
	text := m.text
	if s.zip {
		if !s.begun {
			s.begun = true
			if _, err := s.w.Write(gzipHeader); err != nil {
				return err
			}
		}
		s.sum, s.size = crc32.Update(s.sum, crc32.IEEETable, text), s.size+uint32(len(text)) // modulo 2^32, as the format has it
		text = m.zipped()
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	unlimited(s.w)
	return nil
}

// end ends the stream. The client may have left.
func (s *stream) end() {
	limit(s.w)
	if !s.begun {
		return
	}
	end := []byte{3, 0} // a last block, without anything
	end = binary.LittleEndian.AppendUint32(end, s.sum)
	_, _ = s.w.Write(binary.LittleEndian.AppendUint32(end, s.size))
}
