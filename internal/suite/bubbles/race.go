//go:build race && !go1.27

package bubbles

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
