package quant

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	testkit "github.com/onward-ml/onward/internal/testing"
)

// TestTiles compares AMX with plain Go for every number of rows and steps, at the end of accessible memory.
func TestTiles(t *testing.T) {
	if !slices.ContainsFunc(cpu.Levels(), cpu.AMX) {
		t.Skip("the processor or the operating system has no AMX")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		var s Tiles
		first, second, chunks, steps := 1+r.IntN(16), r.IntN(17), 1+r.IntN(3), 1+r.IntN(16)
		s.Configure(first, second, chunks, steps)
		s.Taps = 1 + r.IntN(3)
		count := 1 + r.IntN(s.Most())
		s.Pixel = 1 + r.IntN(100)
		offsets := make([]int, s.Taps)
		for k := range offsets {
			offsets[k] = r.IntN(100)
		}
		end := 0
		for k := range count {
			for h, rows := range [2]int{first, second} {
				s.At[k][h] = r.IntN(2000)
				if rows > 0 {
					end = max(end, s.At[k][h]+(rows-1)*s.Pixel+slices.Max(offsets)+4*chunks*steps)
				}
			}
		}
		a := testkit.Guarded[uint8](t, end, testkit.High, i%4)
		b := testkit.Guarded[int8](t, s.Taps*chunks*steps*PanelWidth*4, testkit.High, 0)
		for k := range a {
			a[k] = uint8(r.Uint32())
		}
		for k := range b {
			b[k] = int8(r.Uint32())
		}
		s.A, s.B, s.Offsets = unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), unsafe.Pointer(&offsets[0])
		want := s
		want.Sum(cpu.Generic, count)
		s.Sum(cpu.AVX512, count)
		if s.Sums != want.Sums {
			t.Fatalf("%d and %d rows, %d chunks of %d steps, %d taps, %d tiles: the sums differ", first, second, chunks, steps, s.Taps, count)
		}
	}
}
