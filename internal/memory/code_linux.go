package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// DropCode unmaps the pages of the executable: at start, Linux maps large parts of it around each
// page that is read, and counts them as memory of the process. Pages that are used again come from
// the page cache. Pages that have been written, as those of relocations, stay.
func DropCode() {
	name, err := os.Executable()
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var from, to uintptr // of the mapping that the lines describe, if it is of the executable
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			if from, to = 0, 0; fields[len(fields)-1] == name && !strings.Contains(fields[1], "w") {
				from, to = lo, hi
			}
		} else if len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && from < to {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
