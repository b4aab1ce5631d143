package quant

import "unsafe"

// AVX2 multiplies four uint8 and int8 in three instructions: VPMADDUBSW adds the products of two
// pairs in 16 bits, with saturation. Sums of pairs fit if elements of B with the same sign add up
// to at most 128 in magnitude, since 255·128 = 32640. From the few larger pairs of a matrix, the
// excess is taken away and added to the sums one by one.
const (
	pairLimit = 128
	// Adding an excess takes as long as the tiles save in some 100 pairs.
	pairsPerExcess = 512
)

// excess is what the packed element at row k of B and column j of a panel lacks.
type excess struct {
	k    int32
	j, v int8
}

// fewLargePairs reports whether few pairs of b, see [Pack], are over pairLimit.
func fewLargePairs[T Byte](b []T, ldb int, trans bool, k, n int) bool {
	if k == 0 || n == 0 {
		return false
	}
	x, least, _ := bytesOf(b)
	flip := uint8(0x80)
	if least < 0 {
		flip = 0
	}
	most := k * n / 2 / pairsPerExcess
	if trans {
		for j := 0; j < n && most >= 0; j++ {
			col := x[j*ldb:][:k]
			for i := 1; i < len(col); i += 2 {
				most -= largePair(col[i-1]^flip, col[i]^flip)
			}
		}
		return most >= 0
	}
	for i := 1; i < k && most >= 0; i += 2 {
		even, odd := x[(i-1)*ldb:][:n], x[i*ldb:][:n]
		for j, v := range even {
			most -= largePair(v^flip, odd[j]^flip)
		}
	}
	return most >= 0
}

// largePair returns 1 if the sum of two int8 is over pairLimit in magnitude, otherwise 0.
func largePair(x, y uint8) int {
	if uint(int(int8(x))+int(int8(y))+pairLimit) > 2*pairLimit {
		return 1
	}
	return 0
}

// limitPairs takes the excess from the elements of pairs.
func (p *Packed) limitPairs() {
	size := p.steps * PanelWidth * 4
	for pi := 0; pi*PanelWidth < p.N; pi++ {
		panel := p.bytes[pi*size:][:size]
		for i := 0; i < size; i += 2 {
			x, y := int(panel[i]), int(panel[i+1])
			v := max(x+y-pairLimit, 0) + min(x+y+pairLimit, 0)
			if v == 0 {
				continue
			}
			if p.excess == nil {
				p.excess = make([][]excess, (p.N+PanelWidth-1)/PanelWidth)
			}
			panel[i] = int8(x - v)
			step, in := i/(4*PanelWidth), i%(4*PanelWidth)
			p.excess[pi] = append(p.excess[pi], excess{int32(4*step + in%4), int8(in / 4), int8(v)})
		}
	}
}

// addExcess adds the products of rows of A, at stride lda, and the excess of a panel to c.
func addExcess(list []excess, a unsafe.Pointer, lda, rows int, c []int32, ldc int) {
	for r := 0; r < rows && len(list) > 0; r++ {
		x, sums := unsafe.Slice((*uint8)(unsafe.Add(a, r*lda)), list[len(list)-1].k+1), c[r*ldc:]
		for _, e := range list {
			sums[e.j] += int32(x[e.k]) * int32(e.v)
		}
	}
}
