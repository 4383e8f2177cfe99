//go:build !unix

package electiontest

import (
	"errors"
	"os"
)

func stop(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
