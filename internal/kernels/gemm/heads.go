package gemm

import "github.com/onward-ml/onward/internal/cpu"

// HeadFormat is the format of the elements of [HeadRows].
type HeadFormat uint8

// Formats of elements.
const (
	HeadF32 HeadFormat = iota
	HeadF16
	HeadBF16
)

// HeadRows are the keys or the values of one head of attention: rows at a distance of Ld elements.
type HeadRows struct {
	Data   []byte
	Format HeadFormat
	Ld     int
}

// From returns the rows from row i on.
func (r HeadRows) From(i int) HeadRows {
	r.Data = r.Data[i*r.Ld*r.size():]
	return r
}

// size returns the size of an element in bytes.
func (r *HeadRows) size() int {
	if r.Format == HeadF32 {
		return 4
	}
	return 2
}

// headColumns is the number of which the columns must be a multiple: a vector of AVX-512.
const headColumns = 16

// HasHeads reports whether there are kernels of [DotHeads] and [AddHeads] for rows of the given
// number of columns.
func HasHeads(level cpu.Level, columns int) bool {
	return columns > 0 && columns%headColumns == 0 && hasVector(level)
}
