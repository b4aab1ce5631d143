package goengine

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestAffinities(t *testing.T) {
	for _, c := range []struct {
		entry   string
		threads int
		want    [][]int
		err     string // part of it
	}{
		{"", 8, nil, ""},
		{"1", 2, [][]int{{0}}, ""},
		{"1-2, 1;1", 3, [][]int{{0, 1, 0}, {0}}, ""},
		{"1;1", 2, nil, "for 2 threads, want them for 1: all of 2"},
		{"1", 1, nil, "for 1 threads, want them for 0"},
		{"0", 2, nil, `"0", want a processor from 1 to 1024`},
		{"1025", 2, nil, `"1025", want`},
		{"2-1", 2, nil, `"2-1", want`},
		{"1,", 2, nil, `"", want`},
		{"1-99999999999999999999", 2, nil, "want a processor"},
		{"1024", 2, nil, "binding a thread to processors [1023], counted from 0"},
	} {
		got, err := affinities(c.entry, c.threads)
		if runtime.GOOS != "linux" && err != nil && strings.Contains(err.Error(), "unsupported") {
			continue
		}
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q for %d threads: %v, %v, want %v and an error with %q", c.entry, c.threads, got, err, c.want,
				c.err)
		}
	}
}
