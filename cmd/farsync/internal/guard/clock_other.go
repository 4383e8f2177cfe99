//go:build unix && !linux

package guard

import (
	"context"
	"time"
)

// Now is the time of day: the systems have no other clock in common that two processes can compare.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// An alarm sends when a time has come.
type alarm struct {
	timer *time.Timer
	c     chan struct{}
}

func newAlarm(context.Context) (*alarm, error) {
	a := &alarm{c: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.c <- struct{}{}:
		default:
		}
	})
	return a, nil
}

func (a *alarm) set(at time.Duration) error {
	a.timer.Reset(at - Now())
	return nil
}
