package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
)

func TestVersion(t *testing.T) {
	system := "\ngo      " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + "\nkernels " +
		cpu.Active().String()
	release := &debug.BuildInfo{Main: debug.Module{Version: "v0.3.0"}, Settings: []debug.BuildSetting{
		{Key: "-tags", Value: "core"}, {Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}}
	for want, info := range map[string]*debug.BuildInfo{
		"(unknown)" + system: nil,
		"(devel)" + system:   {},
		"v0.3.0\ncommit  0123abc, 2026-01-02T03:04:05Z, modified\ntags    core" + system: release,
	} {
		if got := version(info); !strings.HasPrefix(got, want) {
			t.Errorf("version = %q, want %q", got, want)
		}
	}
	if code, out, errs := invoke(t, "--version"); code != exitOK || !strings.HasPrefix(out, "onward version ") ||
		!strings.Contains(out, system) || errs != "" {
		t.Errorf("--version: code %d, output %q, errors %q", code, out, errs)
	}
}
