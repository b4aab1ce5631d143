// Package cpu defines the instruction-set levels of the kernels, detects the best level of the
// machine, and lets tests and the environment select a lower one.
//
// The environment variable ONWARD_CPU selects generic, avx2, avx512 or neon. A level that the
// machine or the build does not support is ignored, and [Notice] says so.
package cpu

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// Level is an instruction-set level. On amd64 the levels are ordered: a machine with a level
// supports all lower ones. On arm64 there is only NEON above Generic.
type Level uint8

const (
	// Generic is plain Go.
	Generic Level = iota
	// AVX2 is AVX2 with FMA, F16C and BMI2 (x86-64-v3).
	AVX2
	// AVX512 is AVX-512 F, BW, VL, DQ and CD (x86-64-v4).
	AVX512
	// NEON is Advanced SIMD on arm64.
	NEON
)

var names = [...]string{Generic: "generic", AVX2: "avx2", AVX512: "avx512", NEON: "neon"}

// String returns the name of the level, as in ONWARD_CPU.
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

// choose returns the level for a value of ONWARD_CPU, and the reason if the value was ignored.
func choose(env string) (Level, string) {
	if env == "" {
		return detected, ""
	}
	l, err := Parse(env)
	if err != nil {
		return detected, "ONWARD_CPU: " + err.Error()
	}
	if !Available(l) {
		return detected,
			fmt.Sprintf("ONWARD_CPU: level %s is not available on this machine or in this build, using %s", l, detected)
	}
	return l, ""
}

// Detected returns the best level of the machine and the build.
func Detected() Level { return detected }

// Active returns the current level: the detected one, unless ONWARD_CPU or [Set] selected another.
func Active() Level { return Level(active.Load()) }

// Notice returns the reason why ONWARD_CPU was ignored, or "".
func Notice() string { return notice }

// Available reports whether kernels of level l can run on this machine.
func Available(l Level) bool {
	switch l {
	case Generic:
		return true
	case NEON:
		return detected == NEON
	}
	return detected != NEON && l <= detected
}

// Levels returns the available levels, Generic first.
func Levels() []Level {
	var ls []Level
	for l := Generic; int(l) < len(names); l++ {
		if Available(l) {
			ls = append(ls, l)
		}
	}
	return ls
}

// Set selects level l and returns a function that restores the previous one. It is for tests. It
// panics if the level is not available.
func Set(l Level) (restore func()) {
	if !Available(l) {
		panic(fmt.Sprintf("cpu: level %s is not available, have %v", l, Levels()))
	}
	old := active.Swap(uint32(l))
	return func() { active.Store(old) }
}

// VNNI reports whether level l may use the AVX-512 VNNI instructions (VPDPBUSD, VPDPWSSD).
func VNNI(l Level) bool { return l == AVX512 && hasVNNI }

// VBMI reports whether level l may use the byte permutations of AVX512_VBMI (VPERMI2B).
func VBMI(l Level) bool { return l == AVX512 && hasVBMI }

// AMX reports whether level l may use AMX-INT8 tiles (TDPBUSD). The first call asks the
// operating system for permission to use the registers.
func AMX(l Level) bool {
	return l == AVX512 && !withoutMatrices.Load() && (emulatedAMX.Load() || hasAMX())
}

// AMXTiles reports whether level l may execute the instructions of AMX, which
// [EmulateAMX] does not provide.
func AMXTiles(l Level) bool { return l == AVX512 && hasAMX() }

// emulatedAMX is set by [EmulateAMX].
var emulatedAMX atomic.Bool

// EmulateAMX makes [AMX] report true on processors without AMX, on which its tiles are computed in
// plain Go, and returns a function that restores it. It is for tests.
func EmulateAMX() (restore func()) {
	old := emulatedAMX.Swap(true)
	return func() { emulatedAMX.Store(old) }
}

// BF16 names the instructions for bfloat16 GEMM. They differ in the order of accumulation, see
// package gemm.
type BF16 uint32

const (
	BF16None  BF16 = iota // no instructions that are faster than those for float32
	BF16Tiles             // TDPBF16PS of AMX; AMX-BF16 implies AMX-INT8
	// VDPBF16PS of AMD's processors from Zen 4 on; Intel's multiply no faster with
	// it than in float32
	BF16Pairs
	BF16Fours // BFMMLA of arm64 (FEAT_BF16)
)

var bf16Names = [...]string{"none", "TDPBF16PS", "VDPBF16PS", "BFMMLA"}

func (b BF16) String() string { return bf16Names[b] }

// ownBF16 returns the instructions of the processor.
var ownBF16 = sync.OnceValue(func() BF16 {
	switch {
	case hasMatrixBF16:
		return BF16Fours
	case hasDotBF16():
		return BF16Pairs
	case detected == AVX512 && hasAMXBF16():
		return BF16Tiles
	}
	return BF16None
})

// emulatedBF16 is one more than the instructions of [EmulateBF16], or 0.
var emulatedBF16 atomic.Uint32

// EmulateBF16 makes every level but generic act as on a processor with the instructions b, and
// returns a function that restores it. Instructions that the processor lacks are emulated in
// plain Go. It is for tests.
func EmulateBF16(b BF16) (restore func()) {
	old := emulatedBF16.Swap(uint32(b) + 1)
	return func() { emulatedBF16.Store(old) }
}

// OrderBF16 returns the instructions of the processor, whose order of additions all levels follow.
func OrderBF16() BF16 {
	if e := emulatedBF16.Load(); e > 0 {
		return BF16(e - 1)
	}
	return ownBF16()
}

// UsesBF16 returns the instructions that the engine is to use at level l, whether the processor or
// plain Go computes them.
func UsesBF16(l Level) BF16 {
	switch b := OrderBF16(); {
	case withoutMatrices.Load(), l == Generic, emulatedBF16.Load() == 0 && l != detected:
		return BF16None
	default:
		return b
	}
}

// RunsBF16 is [UsesBF16] if the processor has the instructions, else [BF16None].
func RunsBF16(l Level) BF16 {
	if b := UsesBF16(l); l == detected && b == ownBF16() {
		return b
	}
	return BF16None
}

// BFloat16 reports whether bfloat16 GEMM is faster at level l
// than those of float32.
func BFloat16(l Level) bool { return UsesBF16(l) != BF16None }

// withoutMatrices is set by [WithoutMatrices].
var withoutMatrices atomic.Bool

// WithoutMatrices turns AMX, [UsesBF16] and [Int8Matrix] off, and returns a function that restores
// them. It is for tests.
func WithoutMatrices() (restore func()) {
	old := withoutMatrices.Swap(true)
	return func() { withoutMatrices.Store(old) }
}

// DotProduct reports whether level l may use the dot products of arm64 (SDOT, UDOT).
func DotProduct(l Level) bool { return l == NEON && hasDotProduct }

// Int8Matrix reports whether level l may use FEAT_I8MM of arm64: int8 and uint8 matrix products
// (SMMLA, UMMLA, USMMLA), and dot products of int8 and uint8 (USDOT, SUDOT).
func Int8Matrix(l Level) bool { return DotProduct(l) && hasInt8Matrix && !withoutMatrices.Load() }

// Extension returns the name of the int8 instructions that level l may use, or "".
func Extension(l Level) string {
	switch {
	case AMX(l):
		return "AMX"
	case VNNI(l):
		return "VNNI"
	case Int8Matrix(l):
		return "I8MM"
	case DotProduct(l):
		return "SDOT"
	}
	return ""
}
