package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/onward-ml/onward/internal/cpu"
)

// version describes the build and the machine: the module's version, the commit, the build tags, Go
// and the level of the kernels.
func version(info *debug.BuildInfo) string {
	v, setting := "(unknown)", map[string]string{}
	if info != nil {
		v = info.Main.Version
		for _, s := range info.Settings {
			setting[s.Key] = s.Value
		}
	}
	if v == "" {
		v = "(devel)"
	}
	if r := setting["vcs.revision"]; r != "" {
		v += "\ncommit  " + r
		if t := setting["vcs.time"]; t != "" {
			v += ", " + t
		}
		if setting["vcs.modified"] == "true" {
			v += ", modified"
		}
	}
	if t := setting["-tags"]; t != "" {
		v += "\ntags    " + t
	}
	v += fmt.Sprintf("\ngo      %s, %s/%s\nkernels %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.Active())
	if e := cpu.Extension(cpu.Active()); e != "" {
		v += " with " + e
	}
	return v
}
