package tensor

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// formatElements writes each element of src, a tensor of numbers or bools, as a string. The format
// is ONNX Runtime's; it is a "plain floating-point representation" as ONNX demands.
func formatElements(dst []string, src *Tensor) {
	switch {
	case src.dtype.IsFloat():
		var buf [32]byte
		eachBlock(src, TypeFloat64, func(i int, block []float64) {
			for j, v := range block {
				dst[i+j] = string(appendCastFloat(buf[:0], v))
			}
		})
	case src.dtype == TypeUint64:
		for i, v := range MustData[uint64](src) {
			dst[i] = strconv.FormatUint(v, 10)
		}
	default:
		eachBlock(src, TypeInt64, func(i int, block []int64) {
			for j, v := range block {
				dst[i+j] = strconv.FormatInt(v, 10)
			}
		})
	}
}

// eachBlock converts t, a tensor of numbers or bools, to T block by block, and calls f with each
// block. as is the DType of T.
func eachBlock[T int64 | float64](t *Tensor, as DType, f func(i int, block []T)) {
	var a [blockLen]T
	n := t.Len()
	s := span{t.dtype, t.data, n}
	for i := 0; i < n; i += blockLen {
		m := min(blockLen, n-i)
		convertElements(span{as, memory.AsBytes(a[:m]), m}, s.at(i, m), ConvertOptions{})
		f(i, a[:m])
	}
}

func appendCastFloat(b []byte, v float64) []byte {
	switch {
	case v != v:
		return append(b, "NaN"...)
	case math.IsInf(v, 1):
		return append(b, "INF"...)
	case math.IsInf(v, -1):
		return append(b, "-INF"...)
	}
	return strconv.AppendFloat(b, v, 'g', 8, 64)
}

// parseElements parses each string as a number.
func parseElements(dst *Tensor, src []string, opts ConvertOptions) error {
	bad := func(i int, err error) error {
		return fail.Errorf("tensor: cannot convert element %d, %.64q, to %s: %w", i, src[i], dst.dtype, err)
	}
	out := span{dst.dtype, dst.data, len(src)}
	if dst.dtype == TypeFloat32 { // one rounding from decimal
		d := MustData[float32](dst)
		for i, s := range src {
			v, err := parseNumber(s, 32)
			if err != nil {
				return bad(i, err)
			}
			d[i] = float32(v)
		}
		return nil
	}
	var ints [blockLen]int64
	var floats [blockLen]float64
	for i := 0; i < len(src); i += blockLen {
		n := min(blockLen, len(src)-i)
		if dst.dtype.IsInteger() {
			for j, s := range src[i : i+n] {
				v, err := parseInteger(s)
				if err != nil {
					return bad(i+j, err)
				}
				ints[j] = v
			}
			convertElements(out.at(i, n), span{TypeInt64, memory.AsBytes(ints[:n]), n}, opts)
			continue
		}
		for j, s := range src[i : i+n] {
			v, err := parseNumber(s, 64)
			if err != nil {
				return bad(i+j, err)
			}
			floats[j] = v
		}
		convertElements(out.at(i, n), span{TypeFloat64, memory.AsBytes(floats[:n]), n}, opts)
	}
	return nil
}

var (
	errNotNumber = errors.New("not a number in decimal notation")
	errNoInteger = errors.New("not a 64-bit integer")
)

// parseNumber parses decimal notation and the names of infinity and NaN. Numbers out of range
// become infinite.
func parseNumber(s string, bits int) (float64, error) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "_xX") { // Go's own notations, which ParseFloat would accept
		return 0, errNotNumber
	}
	if rest, ok := strings.CutPrefix(s, "-"); ok && strings.EqualFold(rest, "nan") {
		return math.NaN(), nil
	}
	if rest, ok := strings.CutPrefix(s, "+"); ok && strings.EqualFold(rest, "nan") {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(s, bits)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errNotNumber
	}
	return v, nil
}

// parseInteger parses a signed or unsigned 64-bit integer and returns its bits. A fraction is
// dropped.
func parseInteger(s string) (int64, error) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		return v, nil
	}
	if u, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64); err == nil {
		return int64(u), nil
	}
	f, err := parseNumber(s, 64)
	switch {
	case err != nil:
		return 0, err
	case f >= -1<<63 && f < 1<<63:
		return int64(f), nil
	case f >= 1<<63 && f < 1<<64:
		return int64(uint64(f)), nil
	}
	return 0, errNoInteger
}
