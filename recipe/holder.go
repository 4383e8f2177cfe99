package recipe

import (
	"errors"
	"fmt"
	"os"
	"unicode"
	"unicode/utf8"
)

// maxHolder is generous for what people read in a list.
const maxHolder = 1024

// Holder returns who a Store says it is, from what its options say: host name and process id if that is empty. It
// refuses what could not be shown in a line.
func Holder(said string) (string, error) {
	if said == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		return fmt.Sprintf("%s pid %d", host, os.Getpid()), nil
	}
	if len(said) > maxHolder {
		return "", fmt.Errorf("Holder has %d bytes, %d are allowed", len(said), maxHolder)
	}
	if !utf8.ValidString(said) {
		return "", errors.New("Holder is not valid UTF-8")
	}
	for _, c := range said {
		if !unicode.IsPrint(c) {
			return "", errors.New("Holder has a character that is not printable")
		}
	}
	return said, nil
}
