package peak

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

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
		r = append(r, Cache{Level: level, Bytes: n * unit, CPUs: max(cpusOf(read(e, "shared_cpu_list")), 1)})
	}
	slices.SortFunc(r, func(a, b Cache) int { return cmp.Compare(a.Level, b.Level) })
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
