package vec

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested(
	"twoChannels", "threeChannels", "transposeU8", "transposeU8Edge", "transposeU16",
	"transposeU16Edge", "transposeU32", "transposeU32Edge", "transposeU64", "transposeU64Edge",
)

func TestTransposeAny(t *testing.T) {
	t.Run("8", testTransposeAny[uint8])
	t.Run("16", testTransposeAny[uint16])
	t.Run("32", testTransposeAny[uint32])
	t.Run("64", testTransposeAny[uint64])
}

func testTransposeAny[E Bits](t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		if !canTranspose[E](l) {
			t.Skip("this level has no kernel")
		}
		testkit.Sides(func(side string, s testkit.Side) {
			for _, rows := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 48, 70, 1050} {
				for _, cols := range []int{1, 2, 3, 8, 10, 16, 17, 24, 32, 35, 1030} {
					if rows*cols > 40000 {
						continue
					}
					for _, extra := range []int{0, 3} {
						lds, ldd := cols+extra, rows+extra
						src := testkit.Guarded[E](t, (rows-1)*lds+cols, s, 0)
						dst := testkit.Guarded[E](t, (cols-1)*ldd+rows, s, 0)
						for i := range src {
							src[i] = E(i*7 + 1)
						}
						for i := range dst {
							dst[i] = 99
						}
						if !Transpose(l, dst, ldd, src, lds, rows, cols) {
							t.Fatal("no elements were transposed")
						}
						for j := range cols {
							for i := range min(ldd, len(dst)-j*ldd) {
								want := E(99)
								if i < rows {
									want = src[i*lds+j]
								}
								if got := dst[j*ldd+i]; got != want {
									t.Fatalf("%s: %d×%d, element %d, %d is %v, want %v", side, rows,
										cols, i, j, got, want)
								}
							}
						}
					}
				}
			}
		})
	})
}
