package vec

import (
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("twiceU8", "twiceU16", "twiceU32")

func TestTwice(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 28, 33, 4 * chunk, 4*chunk + 1} {
			for _, rows := range []int{0, 1, 2, 3, 300} {
				for k := range 6 {
					copies, size := 1+k%2, 1<<(k/2)
					if rows*n > 8*chunk {
						continue
					}
					src, dst := testkit.Guarded[byte](t, size*n*rows, testkit.High, 0),
						testkit.Guarded[byte](t, size*2*n*rows*copies, testkit.High, 0)
					for i := range src {
						src[i] = byte(rand.Uint32())
					}
					Twice(l, dst, src, n, size)
					for i, v := range dst {
						row, column := i/size/(2*n), i/size%(2*n)
						if want := src[(row/copies*n+column/2)*size+i%size]; v != want {
							t.Fatalf("%d rows of %d elements of %d bytes, %d copies: byte %d of element %d of row %d "+
								"is %d, want %d", rows, n, size, copies, i%size, column, row, v, want)
						}
					}
				}
			}
		}
	})
}
