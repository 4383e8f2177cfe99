//go:build unix

package livetest

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
)

var pictures = flag.String("pictures", "", "the folder to write the pictures of docs/LIVE.md into")

// TestPictures takes those pictures: go test ./internal/livetest -run Pictures -pictures $PWD/docs/live.
func TestPictures(t *testing.T) {
	suite.Long(t, suite.Live, "takes pictures of a page that stands still")
	b := needBrowser(t)
	c := newCast(t)
	store, err := farsync.Open(t.Context(), aged{c.service.Service("ops pid 1")}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	s := newSite(t, nil)
	s.view.Add("etcd", store)
	p := b.open(t, s.page(), wide)
	p.until("nothing is held", visible("All is free"))
	write(t, "empty", p.picture())
	c.incident()
	p.until("all is there", visible("web-1 pid 88")+" && "+visible("idx-9 pid 12"))
	write(t, "busy", p.picture())
	c.deadlock()
	p.until("deadlock", visible("Deadlock"))
	p.eval("document.getElementById('nested').open = true", nil)
	p.until("graph", "document.querySelectorAll('#graph svg > path').length === 2")
	write(t, "deadlock", p.picture())
	p.eval("document.getElementById('nested').open = false", nil)
	p.set(settings{dark: true, width: wide.width, height: wide.height})
	p.eval(`[...document.querySelectorAll("td.path button")].find(b => b.title === "/deploy/shop").click()`, nil)
	p.until("the panel", `document.querySelector("#lock .name")`)
	p.until("it stands still", `document.getElementById("lock").getAnimations().length === 0`)
	write(t, "dark", p.picture())
	p.press("Escape", 27)
	p.set(narrow)
	p.until("it is drawn anew", "document.documentElement.scrollWidth <= innerWidth && document.querySelectorAll('tr[aria-rowindex]').length > 0")
	write(t, "narrow", p.picture())
	p.set(wide)
	p.until("deadlock", visible("Deadlock"))
	require.NoError(t, s.view.Close())
	s.Close()
	p.until("it says so", visible("No connection since"))
	write(t, "lost-connection", p.picture())
	requests, _ := p.seen()
	require.NotEmpty(t, requests)
}

// write writes a picture for the documents, if the test is asked for them.
func write(t testing.TB, name string, picture []byte) {
	t.Helper()
	if *pictures == "" {
		return
	}
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewer(full)))
	require.NoError(t, os.WriteFile(filepath.Join(*pictures, name+".png"), out.Bytes(), 0o644))
}

// fewer returns a picture in 256 of its colors, which is a quarter of the size, and hard to tell from it: the commonest, and of the
// others those that are least like them, for a dot of green is a few pixels.
func fewer(full image.Image) image.Image {
	counts := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	const common, most = 200, 256
	palette := color.Palette(slices.Clone(colors[:min(len(colors), common)]))
	for rest := colors[len(palette):]; len(palette) < most && len(rest) > 0; {
		palette = append(palette, slices.MaxFunc(rest, func(a, b color.Color) int { return unlike(palette, a) - unlike(palette, b) }))
	}
	few := image.NewPaletted(full.Bounds(), palette)
	draw.Draw(few, few.Bounds(), full, image.Point{}, draw.Src)
	return few
}

// unlike returns how far a color is from the nearest of a palette.
func unlike(palette color.Palette, c color.Color) int {
	near := color.NRGBAModel.Convert(palette.Convert(c)).(color.NRGBA)
	of := color.NRGBAModel.Convert(c).(color.NRGBA)
	square := func(a, b uint8) int { return (int(a) - int(b)) * (int(a) - int(b)) }
	return square(near.R, of.R) + square(near.G, of.G) + square(near.B, of.B)
}

// aged is a service in which all is older than it is, the deeper in the alphabet the older.
type aged struct{ driver.Service }

func (s aged) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := s.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return agedSession{in}, nil
}

type agedSession struct{ driver.Session }

func (s agedSession) Survey(ctx context.Context, prefix, after string, limit int) (driver.View, error) {
	v, err := s.Session.Survey(ctx, prefix, after, limit)
	for i := range v.Entries {
		age := time.Duration(0)
		for path, of := range map[string]time.Duration{
			"/billing": 26 * time.Minute, "/config": 9 * time.Second, "/cron": 3*time.Minute + 12*time.Second, "/db": 48 * time.Second,
			"/deploy/sh": 11*time.Minute + 40*time.Second, "/deploy/se": 4 * time.Second, "/leader": 81 * time.Hour, "/reindex": 40 * time.Minute,
		} {
			if strings.HasPrefix(v.Entries[i].Queue, path) {
				age = of
			}
		}
		if i > 0 && v.Entries[i-1].Queue == v.Entries[i].Queue {
			age = max(0, age-time.Duration(i)*7*time.Second)
		}
		v.Entries[i].Since = v.Entries[i].Since.Add(-age)
	}
	return v, err
}
