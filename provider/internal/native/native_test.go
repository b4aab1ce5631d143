package native

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestPlacesAreAbsoluteOrBare(t *testing.T) {
	t.Setenv("VIRTUAL_ENV", "relative")
	t.Setenv("CONDA_PREFIX", "/conda")
	s := Search{Env: "ONWARD_TEST_NO_SUCH_VARIABLE", Bare: map[string][]string{"": {"libx.so"}},
		Pattern: map[string]string{"": "libx.so*"},
		System:  []string{"/opt/x"}, Python: []string{"x", "libs"}, Cache: []string{"x-*"},
		More: func(add func(string, ...string)) { add("relative", "folder"); add("more", "/more") }}
	var paths []string
	for _, p := range s.Places() {
		if !filepath.IsAbs(p.Path) && filepath.Base(p.Path) != p.Path {
			t.Errorf("%s (%s) is relative", p.Path, p.Source)
		}
		paths = append(paths, filepath.ToSlash(p.Path))
	}
	for _, want := range []string{"libx.so", "/conda/lib/python3*/site-packages/x/libs/libx.so*", "/more/libx.so*"} {
		if !strings.Contains(strings.Join(paths, "\n")+"\n", want+"\n") {
			t.Errorf("no place %s in %q", want, paths)
		}
	}
	t.Setenv("ONWARD_TEST_NO_SUCH_VARIABLE", "named.so")
	if p := s.Places(); len(p) != 1 || !p[0].Must || p[0].Path != "named.so" {
		t.Errorf("with the variable set: %+v", p)
	}
}

// TestWatchWaits proves that release returns only after a stop that has begun.
func TestWatchWaits(t *testing.T) {
	var begun, ended atomic.Bool
	ctx, cancel := context.WithCancel(context.Background())
	release := Watch(ctx, func() {
		begun.Store(true)
		time.Sleep(20 * time.Millisecond)
		ended.Store(true)
	})
	cancel()
	for !begun.Load() {
		time.Sleep(time.Millisecond)
	}
	release()
	if !ended.Load() {
		t.Error("release does not wait for stop")
	}
	ctx, cancel = context.WithCancel(context.Background())
	Watch(ctx, func() { t.Error("stop is called after release") })()
	cancel()
	Watch(context.Background(), func() { t.Error("stop is called without a cancel") })()
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		in, want string
	}{
		{Text, "x", "x"}, {Integer, "-3", "-3"}, {Integer, "1.5", ""}, {Count, "0", "0"}, {Count, "-1", ""}, {Count, "2147483648", ""},
		{Size, "9999999999", "9999999999"}, {Size, "1k", ""}, {Boolean("YES", "NO"), "1", "YES"}, {Boolean("YES", "NO"), "False", "NO"},
		{Boolean("YES", "NO"), "perhaps", ""}, {OneOf("CPU", "GPU"), "cpu", "CPU"}, {OneOf("CPU", "GPU"), "TPU", ""}, {Text, "a\x00b", ""},
	} {
		got, err := Check("p", "o", c.in, c.kind)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q gives %q, %v, want %q", c.in, got, err, c.want)
		}
		if err != nil && (!strings.Contains(err.Error(), "option o of provider p") ||
			!strings.Contains(err.Error(), "INVALID_ARGUMENT")) {
			t.Errorf("%q: %v", c.in, err)
		}
	}
}
