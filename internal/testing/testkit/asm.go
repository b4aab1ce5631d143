package testkit

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/cputime"
)

// Levels runs f as a subtest at every level of this machine.
func Levels(t *testing.T, f func(t *testing.T, l cpu.Level)) {
	t.Helper()
	for _, l := range cpu.Levels() {
		t.Run(l.String(), func(t *testing.T) { f(t, l) })
	}
}

// ByteLevels is Levels with one more on processors that have AVX-512 and no AMX: AMX's
// tiles in plain Go.
func ByteLevels(t *testing.T, f func(t *testing.T, l cpu.Level)) {
	t.Helper()
	Levels(t, f)
	if cpu.Available(cpu.AVX512) && !cpu.AMX(cpu.AVX512) {
		t.Run("AMX emulated", func(t *testing.T) {
			defer cpu.EmulateAMX()()
			f(t, cpu.AVX512)
		})
	}
}

// BF16Orders calls f as on a processor without fast instructions for bfloat16, and with each kind
// of them: they add products in different orders, and which operators round their operands
// depends on the kind.
func BF16Orders(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	orders := []cpu.BF16{cpu.BF16None, cpu.BF16Tiles, cpu.BF16Pairs}
	if runtime.GOARCH == "arm64" { // other architectures have no code for the order of BFMMLA
		orders = append(orders, cpu.BF16Fours)
	}
	for _, b := range orders {
		t.Run("bfloat16 by "+b.String(), func(t *testing.T) {
			defer cpu.EmulateBF16(b)()
			f(t)
		})
	}
}

var textLine = regexp.MustCompile(`(?m)^TEXT\s+·(\w+)(?:<[^>]*>)?\(SB\),\s*([^,\n]+),\s*\$(-?\d+)`)

// AsmFunctions returns the names of the functions that the assembly files of folder dir define,
// sorted. It fails the test for a function without a stack check: with flags, or with a frame
// below 136 bytes, for which the assembler may leave out the check. A Go loop over such
// functions cannot be preempted.
func AsmFunctions(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.s"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range textLine.FindAllStringSubmatch(string(b), -1) {
			names = append(names, m[1])
			if frame, err := strconv.Atoi(m[3]); err != nil || m[2] != "0" || frame < 136 {
				t.Errorf("%s: %s has flags %s and a frame of %s bytes, want 0 and at least 136", f, m[1], m[2], m[3])
			}
		}
		if n := strings.Count(string(b), "\nTEXT"); n != len(textLine.FindAllString(string(b), -1)) {
			t.Errorf("%s: %d functions, but not all are declared as TEXT ·name(SB), flags, $frame", f, n)
		}
	}
	sort.Strings(names)
	return names
}

var tested []string

// Tested declares assembly functions of the package under test that a test checks, as
// CheckAsmTested names them. It belongs beside that test: var _ = testkit.Tested("reluF32").
func Tested(names ...string) bool {
	tested = append(tested, names...)
	return true
}

// CheckAsmTested fails the test for every assembly function of folder dir that neither covered nor
// Tested names, and for every name that no file defines. A name matches the functions of all
// instruction sets; a trailing * matches any suffix.
func CheckAsmTested(t testing.TB, dir string, covered []string) {
	t.Helper()
	covered = slices.Concat(covered, tested)
	used := make([]bool, len(covered))
	for _, n := range AsmFunctions(t, dir) {
		kernel := n
		for _, isa := range []string{"AVX512", "AVX2", "NEON"} {
			kernel = strings.TrimSuffix(kernel, isa)
		}
		ok := false
		for i, c := range covered {
			if p, star := strings.CutSuffix(c, "*"); n == c || kernel == c || star && strings.HasPrefix(n, p) {
				ok, used[i] = true, true
			}
		}
		if !ok {
			t.Errorf("no test names the assembly function %s (see testkit.Tested)", n)
		}
	}
	for i, u := range used {
		if !u {
			t.Errorf("a test names the assembly function %s, which no file of %s defines", covered[i], dir)
		}
	}
}

// CheckPauses calls work in a loop in another goroutine while it stops the world repeatedly,
// and fails the test if stopping takes more than 5 ms. Assembly is not preemptible: a kernel
// call that is too long delays the garbage collector. A pause is measured in the time of this
// process, and the first quartile of a round is compared, because a busy machine delays single
// stops. The test fails if this quartile is too long in each of several rounds.
func CheckPauses(t testing.TB, work func()) {
	t.Helper()
	if runtime.GOMAXPROCS(0) == 1 { // else a time slice of the other goroutine, 10 ms, is measured too
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(1)
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			work()
		}
	}()
	defer func() {
		stop.Store(true)
		<-done
	}()
	const limit, rounds = 5 * time.Millisecond, 5
	var shortest time.Duration
	for round := range rounds {
		var pauses []time.Duration
		var m runtime.MemStats
		for range 24 {
			time.Sleep(time.Millisecond)
			start := cputime.Now()
			runtime.ReadMemStats(&m) // stops the world and nothing else
			pauses = append(pauses, start.Elapsed())
		}
		slices.Sort(pauses)
		p := pauses[len(pauses)/4]
		if p <= limit {
			return
		}
		if round == 0 || p < shortest {
			shortest = p
		}
	}
	t.Errorf("stopping the world took %v or more (first quartile of %d rounds), want at most %v",
		shortest, rounds, limit)
}
