package tensor

import (
	"archive/zip"
	"bufio"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/fail"
)

// NPZ is the contents of a .npz archive: named arrays in order. The zero value is an empty archive.
type NPZ struct {
	Names  []string // in archive order
	Arrays map[string]*Tensor
}

// Add appends an array. It fails if the name is taken or is not valid in an archive.
func (z *NPZ) Add(name string, t *Tensor) error {
	if err := checkEntryName(name); err != nil {
		return fail.Errorf("npz: %w", err)
	}
	if t == nil {
		return fail.Errorf("npz: the array %.200q is nil", name)
	}
	if _, ok := z.Arrays[name]; ok {
		return fail.Errorf("npz: two arrays have the name %.200q", name)
	}
	if z.Arrays == nil {
		z.Arrays = map[string]*Tensor{}
	}
	z.Names = append(z.Names, name)
	z.Arrays[name] = t
	return nil
}

// checkEntryName refuses names that lead out of the folder in which an archive is unpacked, and
// names that cannot be printed.
func checkEntryName(name string) error {
	if name == "" || len(name) > 1<<15 || !utf8.ValidString(name) {
		return fail.Errorf("entry name %.200q is empty, too long or not UTF-8", name)
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fail.Errorf("entry name %.200q holds a control character", name)
	}
	up := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' })
	if slices.Contains(up, "..") {
		return fail.Errorf("entry name %.200q leads out of its folder", name)
	}
	return nil
}

// entryCost is what an entry counts besides its array, so that the limit also bounds the number of
// entries.
const entryCost = 1 << 10

// ReadNPZ reads all arrays of a .npz archive of size bytes, stored or deflated, as [ReadNPY] does.
// The archive may take at most limit bytes, and so may all arrays together; 0 means [DefaultLimit].
// Sizes stated in the archive are not trusted. Duplicate names, names that lead out of a folder and
// names without the suffix .npy are refused. No files are written.
func ReadNPZ(r io.ReaderAt, size, limit int64) (*NPZ, error) {
	b := newBudget(limit)
	if size > b.limit {
		return nil, fail.Errorf("npz: %w", &LimitError{"the archive", size, b.limit})
	}
	// zip reads the whole directory, whose entries take about eight times their bytes.
	directory := &boundedReaderAt{r, max(b.limit/8, 128<<10), b.limit}
	zr, err := zip.NewReader(directory, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // checkEntryName checks names
		return nil, fail.Errorf("npz: %w", err)
	}
	directory.left = math.MaxInt64
	if err := b.take("the list of entries", entryCost*int64(len(zr.File))); err != nil {
		return nil, fail.Errorf("npz: %w", err)
	}
	if err := checkOverlaps(zr.File); err != nil {
		return nil, fail.Errorf("npz: %w", err)
	}
	z := &NPZ{Arrays: map[string]*Tensor{}}
	for _, f := range zr.File {
		if err := z.read(f, b); err != nil {
			return nil, fail.Errorf("npz: entry %.200q: %w", f.Name, err)
		}
	}
	return z, nil
}

// boundedReaderAt reads until left is used up, in bytes.
type boundedReaderAt struct {
	io.ReaderAt
	left, limit int64
}

func (r *boundedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if int64(len(p)) > r.left {
		return 0, &LimitError{"the directory of the archive", 8 * (int64(len(p)) - r.left), r.limit}
	}
	r.left -= int64(len(p))
	return r.ReaderAt.ReadAt(p, off)
}

// checkOverlaps returns an error if two entries share bytes: a small archive could expand to many
// times its size, each entry within bounds.
func checkOverlaps(files []*zip.File) error {
	type span struct {
		name     string
		from, to int64
	}
	spans := make([]span, len(files))
	for i, f := range files {
		from, err := f.DataOffset()
		if err != nil {
			return fail.Errorf("entry %.200q: %w", f.Name, err)
		}
		if f.CompressedSize64 > math.MaxInt64-uint64(from) {
			return fail.Errorf("entry %.200q has %d bytes, want at most %d", f.Name, f.CompressedSize64,
				math.MaxInt64-from)
		}
		spans[i] = span{f.Name, from, from + int64(f.CompressedSize64)}
	}
	sort.Slice(spans, func(i, k int) bool { return spans[i].from < spans[k].from })
	for i := 1; i < len(spans); i++ {
		// A local header and its name lie between the data of two entries.
		if a, b := spans[i-1], spans[i]; b.from < a.to+localHeader {
			return fail.Errorf("entries %.200q and %.200q overlap: data at %d and %d", a.name, b.name, a.from, b.from)
		}
	}
	return nil
}

// localHeader is the size in bytes of the header before the data of an entry, without its name.
const localHeader = 30

func (z *NPZ) read(f *zip.File, b *budget) error {
	name, ok := strings.CutSuffix(f.Name, ".npy")
	if !ok {
		return errors.New("the name does not end in .npy")
	}
	const encrypted = 1
	if f.Flags&encrypted != 0 {
		return errors.New("entry is encrypted")
	}
	rc, err := f.Open()
	if err != nil {
		return err
	}
	defer rc.Close()
	t, err := readNPY(rc, Undefined, b)
	if err != nil {
		return err
	}
	// The checksum is verified at the end of the entry only, so read until there.
	var one [1]byte
	switch n, err := io.ReadFull(rc, one[:]); {
	case n > 0:
		return errors.New("bytes follow the array")
	case err != io.EOF:
		return err
	}
	return z.Add(name, t)
}

// ReadNPZFile reads a .npz file as [ReadNPZ] does.
func ReadNPZFile(path string, limit int64) (*NPZ, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail.Errorf("tensor: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fail.Errorf("tensor: %w", err)
	}
	z, err := ReadNPZ(f, st.Size(), limit)
	if err != nil {
		return nil, fail.Errorf("tensor: %q: %w", path, err)
	}
	return z, nil
}

// WriteNPZ writes the arrays of z in order, deflated if compress is set. Equal arrays give equal
// bytes: every entry has the first date of the zip format.
func WriteNPZ(w io.Writer, z *NPZ, compress bool) error {
	if z == nil {
		return errors.New("npz: the archive is nil")
	}
	zw := zip.NewWriter(w)
	method := zip.Store
	if compress {
		method = zip.Deflate
	}
	firstDate := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) // the first date of the zip format
	for _, name := range z.Names {
		if err := checkEntryName(name); err != nil {
			return fail.Errorf("npz: %w", err)
		}
		e, err := zw.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: method, Modified: firstDate})
		if err != nil {
			return fail.Errorf("npz: entry %.200q: %w", name, err)
		}
		buf := bufio.NewWriterSize(e, 1<<16)
		if err := WriteNPY(buf, z.Arrays[name]); err != nil {
			return fail.Errorf("npz: entry %.200q: %w", name, err)
		}
		if err := buf.Flush(); err != nil {
			return fail.Errorf("npz: entry %.200q: %w", name, err)
		}
	}
	if err := zw.Close(); err != nil {
		return fail.Errorf("npz: %w", err)
	}
	return nil
}

// WriteNPZFile writes a .npz file as [WriteNPZ] does, and replaces it as [WriteNPYFile] does.
func WriteNPZFile(path string, z *NPZ, compress bool) error {
	return writeFile(path, func(w io.Writer) error { return WriteNPZ(w, z, compress) })
}
