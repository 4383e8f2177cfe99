package aside

import (
	"fmt"
	"log/slog"
)

// Safely calls a function of the program. If it panics, that is logged, and is its error.
func Safely(log *slog.Logger, function string, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			NotePanic(log, function, cause)
			err = fmt.Errorf("%s has panicked: %v", function, cause)
		}
	}()
	return f()
}
