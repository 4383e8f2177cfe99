//go:build unix && !linux

package main

import "errors"

// canFollow tells whether follow works on this system.
const canFollow = false

func follow(int) (chan struct{}, error) { return nil, errors.ErrUnsupported }
