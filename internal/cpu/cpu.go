// Package cpu names the instruction-set levels that the kernels are written
// for, detects the best one of this machine and lets tests and the environment
// force a lower one.
//
// The environment variable ONWARD_CPU takes generic, avx2, avx512 or neon. A level
// that this machine or this build does not have is ignored, and [Notice] says so.
package cpu

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Level is one instruction-set level. On amd64 the levels are ordered: a machine
// that has a level has those below it. NEON stands alone.
type Level uint8

const (
	// Generic is plain Go.
	Generic Level = iota
	// AVX2 is AVX2 with FMA and F16C (x86-64-v3).
	AVX2
	// AVX512 is AVX-512 F, BW, VL, DQ and CD (x86-64-v4).
	AVX512
	// NEON is Advanced SIMD on arm64.
	NEON
)

var names = [...]string{Generic: "generic", AVX2: "avx2", AVX512: "avx512", NEON: "neon"}

// String returns the name that ONWARD_CPU takes.
func (l Level) String() string {
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("cpu.Level(%d)", uint8(l))
}

// Parse returns the level with the given name.
func Parse(name string) (Level, error) {
	for i, n := range names {
		if strings.EqualFold(n, name) {
			return Level(i), nil
		}
	}
	return Generic, fmt.Errorf("cpu: unknown level %q, want one of %s", name, strings.Join(names[:], ", "))
}

var (
	detected = detect()
	active   atomic.Uint32
	notice   string
)

func init() {
	l, n := choose(os.Getenv("ONWARD_CPU"))
	active.Store(uint32(l))
	notice = n
}

// choose returns the level for a value of ONWARD_CPU, and why the value was not followed.
func choose(env string) (Level, string) {
	if env == "" {
		return detected, ""
	}
	l, err := Parse(env)
	if err != nil {
		return detected, "ONWARD_CPU: " + err.Error()
	}
	if !Available(l) {
		return detected, fmt.Sprintf("ONWARD_CPU: level %s is not available on this machine or in this build, using %s", l, detected)
	}
	return l, ""
}

// Detected returns the best level of this machine and this build.
func Detected() Level { return detected }

// Active returns the level in force: the detected one unless ONWARD_CPU or [Set] lowered it.
func Active() Level { return Level(active.Load()) }

// Notice returns why ONWARD_CPU was not followed, or the empty string.
func Notice() string { return notice }

// Available reports whether kernels of level l can run here.
func Available(l Level) bool {
	switch l {
	case Generic:
		return true
	case NEON:
		return detected == NEON
	}
	return detected != NEON && l <= detected
}

// Levels returns every level that can run here, Generic first.
func Levels() []Level {
	var ls []Level
	for l := Generic; int(l) < len(names); l++ {
		if Available(l) {
			ls = append(ls, l)
		}
	}
	return ls
}

// Set forces level l and returns a function that restores the level before. It is
// for tests; it panics on a level that is not available.
func Set(l Level) (restore func()) {
	if !Available(l) {
		panic(fmt.Sprintf("cpu: level %s is not available, have %v", l, Levels()))
	}
	old := active.Swap(uint32(l))
	return func() { active.Store(old) }
}

// VNNI reports whether level l may use the AVX-512 VNNI instructions (VPDPBUSD, VPDPWSSD).
func VNNI(l Level) bool { return l == AVX512 && hasVNNI }
