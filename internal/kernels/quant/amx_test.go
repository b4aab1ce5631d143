package quant

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestTiles compares AMX with plain Go for every number of rows and steps, at the end of accessible
// memory.
func TestTiles(t *testing.T) {
	if !cpu.AMXTiles(cpu.AVX512) {
		t.Skip("the processor or the operating system has no AMX")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		var s Tiles
		halves, n, chunks, steps := 1+r.IntN(2), 1+r.IntN(16), 1+r.IntN(3), 1+r.IntN(16)
		s.Configure(halves, n, chunks, steps)
		s.Taps = 1 + r.IntN(3)
		count := 1 + r.IntN(s.Most())
		s.Pixel = 1 + r.IntN(100)
		offsets := make([]int, s.Taps)
		for k := range offsets {
			offsets[k] = r.IntN(100)
		}
		s.Store, s.Mask, s.Zero, s.Lo, s.Hi = Store(r.IntN(3)), r.Uint32(), 77, -77, 178
		if r.IntN(2) == 0 {
			s.Zero, s.Lo, s.Hi = -5, -123, 132
		}
		s.LdC = 128 + r.IntN(9)
		rows := make([]int32, 2*TileRows*MaxTiles)
		end, c := 0, 0
		for k := range count {
			for h := range halves {
				s.At[k].A[h], s.At[k].C[h] = r.IntN(2000), c
				c += n * s.LdC
				end = max(end, s.At[k].A[h]+(n-1)*s.Pixel+slices.Max(offsets)+4*chunks*steps)
			}
		}
		if s.Store != StoreBytes && r.IntN(2) == 0 {
			s.RowBias = unsafe.Pointer(&rows[0])
		}
		a := testkit.Guarded[uint8](t, end, testkit.High, i%4)
		b := testkit.Guarded[int8](t, s.Taps*chunks*steps*PanelWidth*4, testkit.High, 0)
		var bias [PanelWidth]int32
		var scale [PanelWidth]float32
		for k := range a {
			a[k] = uint8(r.Uint32())
		}
		for k := range b {
			b[k] = int8(r.Uint32())
		}
		for k := range bias {
			bias[k], scale[k] = r.Int32N(20000)-10000, r.Float32()*0.001
			if r.IntN(8) == 0 {
				scale[k] = []float32{1e9, -1e9, float32(math.Inf(1)), float32(math.NaN())}[r.IntN(4)]
			}
		}
		for k := range rows {
			rows[k] = r.Int32N(20000) - 10000
		}
		s.A, s.B, s.Offsets, s.Bias, s.Scale = unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]),
			unsafe.Pointer(&offsets[0]), unsafe.Pointer(&bias), unsafe.Pointer(&scale)
		got, want := make([]uint8, c+128), make([]uint8, c+128)
		twin := s
		s.C, twin.C = unsafe.Pointer(&got[0]), unsafe.Pointer(&want[0])
		s.Run(cpu.AVX512, count)
		twin.Run(cpu.Generic, count)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d times %d rows, %d chunks of %d steps, %d taps, %d tiles, store %d: the results differ", halves,
				n, chunks, steps, s.Taps, count, s.Store)
		}
	}
}

func BenchmarkTiles(b *testing.B) {
	if !cpu.AMXTiles(cpu.AVX512) {
		b.Skip("the processor or the operating system has no AMX")
	}
	for _, chunks := range []int{1, 4, 9} {
		b.Run(fmt.Sprintf("K=%d", 64*chunks), func(b *testing.B) {
			var s Tiles
			var bias [PanelWidth]int32
			var scale [PanelWidth]float32
			var offset int
			const width = 256 // bytes of a row of the result
			s.Configure(2, TileRows, chunks, 16)
			s.Pixel, s.LdC, s.Taps, s.Mask, s.Hi = 64*chunks, width, 1, 1<<32-1, 255
			count := s.Most()
			x, w, y := make([]uint8, 2*TileRows*count*s.Pixel), make([]int8, 64*chunks*PanelWidth),
				make([]uint8, 2*TileRows*count*width)
			for i := range count {
				for h := range 2 {
					s.At[i].A[h], s.At[i].C[h] = (2*i+h)*TileRows*s.Pixel, (2*i+h)*TileRows*width
				}
			}
			s.A, s.B, s.C, s.Offsets = unsafe.Pointer(&x[0]), unsafe.Pointer(&w[0]), unsafe.Pointer(&y[0]),
				unsafe.Pointer(&offset)
			s.Bias, s.Scale = unsafe.Pointer(&bias), unsafe.Pointer(&scale)
			for b.Loop() {
				s.Run(cpu.AVX512, count)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/tile")
		})
	}
}
