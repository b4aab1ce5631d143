package cpu

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestCaches(t *testing.T) {
	dir := fstest.MapFS{}
	add := func(index, level, kind, size, ways, cpus string) {
		for name, text := range map[string]string{"level": level, "type": kind, "size": size,
			"ways_of_associativity": ways, "shared_cpu_list": cpus} {
			dir[index+"/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	add("index0", "1", "Data", "48K", "12", "0-1")
	add("index1", "1", "Instruction", "32K", "8", "0-1")
	add("index2", "2", "Unified", "2048K", "16", "0,8")
	add("index3", "3", "Unified", "260M", "?", "0-7,16-23")
	add("index4", "x", "Unified", "?", "", "-")
	want := []Cache{{1, 48 << 10, 12, 2}, {2, 2 << 20, 16, 2}, {3, 260 << 20, 0, 16}}
	if got := caches(dir); !slices.Equal(got, want) {
		t.Errorf("caches %v, want %v", got, want)
	}
	if got := [2]int{want[0].Span(), want[2].Span()}; got != [2]int{4096, 0} {
		t.Errorf("spans %v, want 4096 and 0 bytes", got)
	}
}
