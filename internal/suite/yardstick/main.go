// Command yardstick does a fixed piece of work, of the kinds that tests do: it allocates, hashes, formats, hands values from goroutine to
// goroutine, and talks to itself over loopback. What a suite of tests needs of the processor is compared with what this needs on the
// same machine in the same run: seconds alone say as much about the machine as about the suite.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
)

// The rounds of each kind take about the same time.
const (
	hashes  = 400
	formats = 60_000
	turns   = 600_000
	trips   = 25_000
)

func main() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "yardstick:", err)
		os.Exit(1)
	}
}

func work() error {
	for range hashes {
		page := make([]byte, 1<<20) // fresh memory each time
		page[0] = sha256.Sum256(page)[0]
	}
	for i := range formats {
		if _, err := json.Marshal(map[string]any{"n": i, "of": []string{"a", "b", "c"}}); err != nil {
			return err
		}
	}
	there, back := make(chan int), make(chan int)
	go func() { // until there is closed
		defer close(back)
		for n := range there {
			back <- n + 1
		}
	}()
	for n := range turns {
		there <- n
		<-back
	}
	close(there)
	<-back
	return talk()
}

func talk() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	echoed := make(chan error, 1)
	go func() { // until the connection is closed
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		echoed <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	word := []byte("word")
	for range trips {
		if _, err = c.Write(word); err == nil {
			_, err = io.ReadFull(c, word)
		}
		if err != nil {
			break
		}
	}
	c.Close()
	if other := <-echoed; err == nil {
		err = other
	}
	return err
}
