package cpu

import (
	"io/fs"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Cache is a data cache of the first processor.
type Cache struct {
	Level int   `json:"level"`
	Bytes int64 `json:"bytes"`
	Ways  int   `json:"ways,omitempty"` // 0 if unknown
	CPUs  int   `json:"cpus"`           // that share it
}

// Span returns the distance in bytes between addresses that share a set: the size of one way. It
// returns 0 if the number of ways is unknown.
func (c Cache) Span() int {
	if c.Ways < 1 {
		return 0
	}
	return int(c.Bytes) / c.Ways
}

// Caches returns the data caches in the order of their levels, if the system describes them
// (Linux).
var Caches = sync.OnceValue(func() []Cache { return caches(os.DirFS("/sys/devices/system/cpu/cpu0/cache")) })

// caches reads the folder of a processor's caches
// (https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-devices-system-cpu).
func caches(dir fs.FS) []Cache {
	read := func(folder, name string) string {
		b, err := fs.ReadFile(dir, folder+"/"+name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	entries, err := fs.Glob(dir, "index*")
	if err != nil {
		return nil
	}
	var r []Cache
	for _, e := range entries {
		level, _ := strconv.Atoi(read(e, "level"))
		size, unit := read(e, "size"), int64(1)
		if rest, ok := strings.CutSuffix(size, "K"); ok {
			size, unit = rest, 1<<10
		} else if rest, ok := strings.CutSuffix(size, "M"); ok {
			size, unit = rest, 1<<20
		}
		n, _ := strconv.ParseInt(size, 10, 32)
		if level < 1 || n < 1 || read(e, "type") == "Instruction" {
			continue
		}
		ways, _ := strconv.ParseUint(read(e, "ways_of_associativity"), 10, 16)
		r = append(r, Cache{Level: level, Bytes: n * unit, Ways: int(ways),
			CPUs: max(cpusOf(read(e, "shared_cpu_list")), 1)})
	}
	sort.Slice(r, func(i, k int) bool { return r[i].Level < r[k].Level })
	return r
}

// cpusOf counts the processors of a list such as "0-3,8".
func cpusOf(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			b, _ = strconv.Atoi(last)
		}
		n += max(b-a+1, 0)
	}
	return n
}
