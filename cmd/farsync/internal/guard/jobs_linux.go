package guard

import (
	"bytes"
	"os"
	"strconv"
)

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// pid (name) state parent …, where the name may have anything in it
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
