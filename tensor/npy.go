package tensor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// npyMagic is the signature of .npy files. The format is described at
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
const npyMagic = "\x93NUMPY"

// maxNPYHeader limits the length of the header. NumPy's own limit is 10,000 bytes.
const maxNPYHeader = 1 << 16

// ReadNPY reads one array from a .npy stream, and no further. It reads versions 1 to 3, C and
// Fortran order, both byte orders, and these item types:
//
//   - the NumPy types that ONNX has, and text of fixed width as strings;
//   - the ml_dtypes types by name;
//   - raw items of two bytes ('V2'), as which NumPy saves bfloat16, as bfloat16, and 'f1' as
//     float8e5m2. For other raw items use [ReadNPYAs].
//
// Pickled objects, structured types and times are refused. Header and array may take at most limit
// bytes; 0 means [DefaultLimit]. Strings and arrays in Fortran order count twice, since they are
// copied. Memory is allocated as data arrives, not by the size that the header states.
func ReadNPY(r io.Reader, limit int64) (*Tensor, error) {
	b := newBudget(limit)
	return readNPY(r, Undefined, b)
}

// ReadNPYAs reads an array like [ReadNPY] and reinterprets its items as elements of dtype. The
// items must be raw or integers, and as wide as the elements; elements of packed types take one
// byte each. It serves arrays of ml_dtypes types, which NumPy saves as raw items without their
// name.
func ReadNPYAs(r io.Reader, dtype DType, limit int64) (*Tensor, error) {
	return readNPY(r, dtype, newBudget(limit))
}

// ReadNPYFile reads a .npy file as [ReadNPY] does.
func ReadNPYFile(path string, limit int64) (*Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail.Errorf("tensor: %w", err)
	}
	defer f.Close()
	t, err := ReadNPY(f, limit)
	if err != nil {
		return nil, fail.Errorf("tensor: %q: %w", path, err)
	}
	return t, nil
}

// budget counts the bytes that a reader may still allocate.
type budget struct{ limit, left int64 }

func newBudget(limit int64) *budget {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &budget{limit, limit}
}

// LimitError is the error for input that needs more memory than its reader may use.
type LimitError struct {
	What  string // what needs the memory
	Need  int64  // bytes
	Limit int64  // bytes allowed in all
}

// Error returns what needs how many bytes, and the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s takes %d bytes, which exceeds what is left of the limit of %d bytes", e.What,
		e.Need, e.Limit)
}

func (b *budget) take(what string, n int64) error {
	if n > b.left {
		return &LimitError{what, n, b.limit}
	}
	b.left -= n
	return nil
}

func readNPY(r io.Reader, as DType, b *budget) (*Tensor, error) {
	h, err := readNPYHeader(r, b)
	if err != nil {
		return nil, fail.Errorf("npy: %w", err)
	}
	if as != Undefined {
		size := max(1, as.Size())
		if as != h.item.dtype && (!h.item.raw || h.item.size != size || as == TypeString) {
			return nil, fail.Errorf("npy: items of %d bytes cannot be read as %s", h.item.size, as)
		}
		h.item.dtype, h.item.raw = as, false
	}
	if h.item.dtype == Undefined {
		return nil, fail.Errorf(
			"npy: raw items of %d bytes have no type: read them with ReadNPYAs, or save the array with a named type",
			h.item.size)
	}
	t, err := readNPYItems(r, h, b)
	if err != nil {
		return nil, fail.Errorf("npy: %w", err)
	}
	return t, nil
}

func readNPYHeader(r io.Reader, b *budget) (*npyHeader, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:10]); err != nil {
		return nil, fail.Errorf("reading the first 10 bytes: %w", noEOF(err))
	}
	if string(head[:6]) != npyMagic {
		return nil, fail.Errorf("signature is %q, want %q", head[:6], npyMagic)
	}
	n := int64(binary.LittleEndian.Uint16(head[8:]))
	switch head[6] {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, head[10:]); err != nil {
			return nil, fail.Errorf("reading the length of the header: %w", noEOF(err))
		}
		n = int64(binary.LittleEndian.Uint32(head[8:]))
	default:
		return nil, fail.Errorf("version %d.%d, want 1.0 to 3.0", head[6], head[7])
	}
	if n > maxNPYHeader {
		return nil, fail.Errorf("header of %d bytes, the limit is %d", n, maxNPYHeader)
	}
	if err := b.take("the header", n); err != nil {
		return nil, err
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fail.Errorf("reading the header of %d bytes: %w", n, noEOF(err))
	}
	h, err := parseNPYHeader(string(text))
	if err != nil {
		return nil, fail.Errorf("header %.200q: %w", text, err)
	}
	return h, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readNPYItems reads the items of the array that h describes.
func readNPYItems(r io.Reader, h *npyHeader, b *budget) (*Tensor, error) {
	n, err := Elements(h.shape)
	if err != nil {
		return nil, err
	}
	hi, size := bits.Mul64(uint64(n), uint64(h.item.size))
	if hi != 0 || size > math.MaxInt {
		return nil, fail.Errorf("the size of %d items of %d bytes overflows", n, h.item.size)
	}
	what := fmt.Sprintf("an array of shape %v with items of %d bytes", h.shape, h.item.size)
	if err := b.take(what, int64(size)); err != nil {
		return nil, err
	}
	if h.item.text != 0 {
		if n > math.MaxInt/stringHeader {
			return nil, fail.Errorf("%d strings are too many", n)
		}
		if err := b.take("strings of "+what, int64(n)*int64(stringHeader)); err != nil {
			return nil, err
		}
		if err := b.take("strings of "+what, int64(size)); err != nil {
			return nil, err
		}
	}
	data, err := readGrowing(r, int(size))
	if err != nil {
		return nil, fail.Errorf("reading %s: %w", what, err)
	}
	if h.item.big {
		w := h.item.size
		if h.item.text != 0 {
			w = 4
		} else if isComplex(h.item.dtype) {
			w /= 2
		}
		swapBytes(data, w)
	}
	fortran := h.fortran && len(h.shape) > 1 && n > 1
	if fortran { // the copy exists beside the original
		if err := b.take("the transposed copy of "+what, int64(size)); err != nil {
			return nil, err
		}
		data = fromFortran(data, h.shape, h.item.size)
	}
	t := &Tensor{dtype: h.item.dtype, shape: h.shape}
	switch {
	case h.item.text == 'S':
		t.strs, err = decodeLatin(data, n, h.item.size)
		return t, err
	case h.item.text == 'U':
		t.strs, err = decodeUTF32(data, n, h.item.size)
		return t, err
	case h.item.dtype.Packed():
		return packItems(h.item.dtype, data, h.shape)
	}
	return FromBytes(h.item.dtype, data, h.shape...)
}

// packItems packs elements of one byte each. Signed elements may be sign-extended or not.
func packItems(dtype DType, data []byte, shape []int) (*Tensor, error) {
	w := dtype.Bits()
	for i, v := range data {
		if extended := int8(v) < 0 && int8(v) >= -1<<(w-1) && dtype.IsSigned(); v>>w != 0 && !extended {
			return nil, fail.Errorf("item %d is %d, outside of %s", i, v, dtype)
		}
	}
	t, err := Zeros(dtype, shape...)
	if err != nil {
		return nil, err
	}
	memory.PackUint(t.data, data, w)
	return t, nil
}

// readGrowing reads n bytes into aligned memory. The buffer doubles as data arrives, so that a
// short stream with a large stated size costs little.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	const first = 1 << 20
	buf := memory.Aligned(min(n, first))
	for at := 0; ; {
		m, err := io.ReadFull(r, buf[at:])
		at += m
		if err != nil {
			return nil, fail.Errorf("%d of %d bytes: %w", at, n, noEOF(err))
		}
		if at == n {
			return buf, nil
		}
		more := memory.Aligned(min(n, 2*at))
		copy(more, buf)
		buf = more
	}
}

func swapBytes(data []byte, w int) {
	switch w {
	case 2:
		for i, v := range memory.FromRaw[uint16](data) {
			memory.FromRaw[uint16](data)[i] = bits.ReverseBytes16(v)
		}
	case 4:
		for i, v := range memory.FromRaw[uint32](data) {
			memory.FromRaw[uint32](data)[i] = bits.ReverseBytes32(v)
		}
	case 8:
		for i, v := range memory.FromRaw[uint64](data) {
			memory.FromRaw[uint64](data)[i] = bits.ReverseBytes64(v)
		}
	}
}

// fromFortran converts items of w bytes from column-major to row-major order.
func fromFortran(data []byte, shape []int, w int) []byte {
	out := memory.Aligned(len(data))
	rank := len(shape)
	strides := make([]int, rank)
	stride := w
	for i, d := range shape {
		strides[i] = stride
		stride *= d
	}
	index := make([]int, rank)
	for at, from := 0, 0; at < len(out); at += w {
		copy(out[at:at+w], data[from:from+w])
		for d := rank - 1; d >= 0; d-- {
			index[d]++
			from += strides[d]
			if index[d] < shape[d] {
				break
			}
			from -= index[d] * strides[d]
			index[d] = 0
		}
	}
	return out
}

func decodeLatin(data []byte, n, size int) ([]string, error) {
	out := make([]string, n)
	for i := range out {
		s := bytes.TrimRight(data[i*size:(i+1)*size], "\x00")
		if !utf8.Valid(s) {
			return nil, fail.Errorf("text item %d, %.40q, is not UTF-8", i, s)
		}
		out[i] = string(s)
	}
	return out, nil
}

func decodeUTF32(data []byte, n, size int) ([]string, error) {
	out := make([]string, n)
	var buf []byte
	for i := range out {
		chars := memory.FromRaw[uint32](data[i*size : (i+1)*size])
		for len(chars) > 0 && chars[len(chars)-1] == 0 {
			chars = chars[:len(chars)-1]
		}
		buf = buf[:0]
		for _, c := range chars {
			if c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
				return nil, fail.Errorf("text item %d holds %#x, want a Unicode character", i, c)
			}
			buf = utf8.AppendRune(buf, rune(c))
		}
		out[i] = string(buf)
	}
	return out, nil
}

// WriteNPY writes t as a .npy stream in C order and little endian, in the lowest version that can
// hold it. Strings become text of fixed width ('<U'); packed elements take one byte each. Types
// that NumPy lacks have their ml_dtypes name; Python must import ml_dtypes before it loads the
// file.
func WriteNPY(w io.Writer, t *Tensor) error {
	if t == nil {
		return errors.New("npy: the tensor is nil")
	}
	descr, err := npyDescr(t)
	if err != nil {
		return fail.Errorf("npy: %w", err)
	}
	if _, err := w.Write(npyPreamble(descr, t.shape)); err != nil {
		return fail.Errorf("npy: writing the header: %w", err)
	}
	if err := writeNPYItems(w, t, descr); err != nil {
		return fail.Errorf("npy: writing %s: %w", t, err)
	}
	return nil
}

func writeNPYItems(w io.Writer, t *Tensor, descr string) error {
	switch {
	case t.dtype == TypeString:
		width, err := strconv.Atoi(strings.TrimPrefix(descr, "<U"))
		if err != nil {
			return err
		}
		return writeUTF32(w, t.strs, width)
	case t.dtype.Packed():
		n, bits := t.Len(), t.dtype.Bits()
		var block [blockLen]byte
		for i := 0; i < n; i += blockLen {
			m := min(blockLen, n-i)
			memory.UnpackUint(block[:m], t.data[i*bits/8:], bits) // ml_dtypes does not sign-extend either
			if _, err := w.Write(block[:m]); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := w.Write(t.data)
	return err
}

func writeUTF32(w io.Writer, strs []string, width int) error {
	buf := make([]byte, 0, 4096)
	put := func(c rune) error {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(c))
		if len(buf) < 4096 {
			return nil
		}
		_, err := w.Write(buf)
		buf = buf[:0]
		return err
	}
	for _, s := range strs {
		n := 0
		for _, c := range s {
			if err := put(c); err != nil {
				return err
			}
			n++
		}
		for ; n < width; n++ {
			if err := put(0); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(buf)
	return err
}

// WriteNPYFile writes t to a .npy file. It writes a temporary file beside path and renames it, so
// that an error leaves the old content. The target of a symbolic link is replaced.
func WriteNPYFile(path string, t *Tensor) error {
	return writeFile(path, func(w io.Writer) error { return WriteNPY(w, t) })
}

// writeFile replaces a file through a buffer.
func writeFile(path string, write func(io.Writer) error) error {
	err := atomicfile.Write(path, 0o644, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<16)
		if err := write(b); err != nil {
			return err
		}
		return b.Flush()
	})
	if err != nil {
		return fail.Errorf("tensor: write %q: %w", path, err)
	}
	return nil
}
