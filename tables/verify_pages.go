package tables

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Limits of what a page of Parquet stands for, where its reader allocates that without the budget.
const (
	maxEmptyPage   = 64      // compressed bytes of a page that has none decompressed
	maxDeltaBlock  = 1 << 16 // differences of a block
	maxDeltaValues = 1 << 24 // texts of a page whose lengths are differences
)

// verifyColumn verifies the column of a row group of a Parquet file before it is read. For a column
// within a struct, Parquet's reader opens the pages in a goroutine of its own, where a panic ends
// the process: verifyColumn opens them too.
func (p *parquetFile) verifyColumn(ctx context.Context, group *file.RowGroupReader, column int) error {
	c, err := group.MetaData().ColumnChunk(column)
	if err != nil {
		return err
	}
	meta := p.r.ParquetReader().MetaData()
	n := c.TotalCompressedSize()
	if size := meta.GetSourceFileSize(); n < 0 || n > size {
		return fmt.Errorf("the column has %d bytes, and the file %d", n, size)
	}
	pages, err := group.GetColumnPageReader(column)
	if err != nil {
		return err
	}
	defer pages.Close()
	from := c.DataPageOffset()
	if d := c.DictionaryPageOffset(); c.HasDictionaryPage() && d > 0 {
		from = min(from, d)
	}
	if meta.WriterVersion().LessThan(metadata.Parquet816FixedVersion) {
		n += 100 // of a header that old writers did not count, at most
	}
	deltas, err := verifyHeaders(ctx, p.f, from, n, c.NumValues())
	if err != nil || !deltas {
		return err
	}
	for pages.Next() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := verifyPage(pages.Page(), meta.Schema.Column(column)); err != nil {
			return err
		}
	}
	return pages.Err()
}

// verifyHeaders verifies the headers of the pages in n bytes of a file, up to a number of values.
// It reports whether pages have one of the encodings of differences.
func verifyHeaders(ctx context.Context, f io.ReaderAt, from, n, values int64) (deltas bool, err error) {
	t := thriftReader{bufio.NewReaderSize(nil, 512)}
	for end := from + n; from < end && values > 0; {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		section := io.NewSectionReader(f, from, math.MaxInt64-from)
		t.Reset(section)
		h, err := t.pageHeader()
		if err != nil {
			return false, fmt.Errorf("header of the page at byte %d: %w", from, err)
		}
		if h.size < 0 || h.compressed < 0 || h.size == 0 && h.compressed > maxEmptyPage {
			return false, fmt.Errorf("the page at byte %d has %d bytes, and %d decompressed", from, h.compressed,
				h.size)
		}
		read, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return false, err
		}
		from += read - int64(t.Buffered()) + int64(h.compressed)
		deltas = deltas || h.deltas
		values -= int64(max(0, h.values))
	}
	return deltas, nil
}

// pageHeader is the part of a header that is verified.
type pageHeader struct {
	kind, size, compressed int32
	values                 int32 // that the reader counts: the rows in a page of version 2
	deltas                 bool
}

func (t *thriftReader) pageHeader() (h pageHeader, err error) {
	err = t.each(func(id, kind int) (err error) {
		switch {
		case kind == thriftI32 && id == 1:
			h.kind, err = t.i32()
		case kind == thriftI32 && id == 2:
			h.size, err = t.i32()
		case kind == thriftI32 && id == 3:
			h.compressed, err = t.i32()
		case kind == thriftStruct && id == 5:
			err = t.dataHeader(&h, 0, 1, 2)
		case kind == thriftStruct && id == 8:
			err = t.dataHeader(&h, 3, 3, 4)
		default:
			err = t.skip(kind, 0)
		}
		return err
	})
	return h, err
}

// dataHeader reads the part of a header for one kind of pages, with the fields of the number of
// values and of the encoding.
func (t *thriftReader) dataHeader(h *pageHeader, page int32, values, encoding int) error {
	return t.each(func(id, kind int) error {
		if kind != thriftI32 || id != values && id != encoding {
			return t.skip(kind, 1)
		}
		v, err := t.i32()
		if id == encoding {
			h.deltas = h.deltas || isDelta(parquet.Encoding(v))
		} else if h.kind == page {
			h.values = v
		}
		return err
	})
}

func isDelta(e parquet.Encoding) bool {
	return e == parquet.Encodings.DeltaBinaryPacked || e == parquet.Encodings.DeltaLengthByteArray ||
		e == parquet.Encodings.DeltaByteArray
}

// verifyPage verifies the values of a page in one of the encodings of differences.
func verifyPage(page file.Page, column *schema.Column) error {
	encoding := parquet.Encoding(page.Encoding())
	if !isDelta(encoding) {
		return nil
	}
	data := page.Data()
	skip := 0 // the levels
	switch page := page.(type) {
	case *file.DataPageV1:
		for _, l := range []struct {
			most     int16
			encoding parquet.Encoding
		}{{column.MaxRepetitionLevel(), page.RepetitionLevelEncoding()},
			{column.MaxDefinitionLevel(), page.DefinitionLevelEncoding()}} {
			switch {
			case l.most == 0:
			case l.encoding == parquet.Encodings.BitPacked:
				skip += (int(page.NumValues())*bits.Len16(uint16(l.most)) + 7) / 8
			case len(data)-skip >= 4:
				skip += 4 + int(binary.LittleEndian.Uint32(data[skip:]))
			}
			if skip < 0 || skip > len(data) {
				break
			}
		}
	case *file.DataPageV2:
		skip = int(page.RepetitionLevelByteLen()) + int(page.DefinitionLevelByteLen())
	default:
		return nil
	}
	if skip < 0 || skip > len(data) {
		return fmt.Errorf("the levels of a page have %d bytes, and the page %d", skip, len(data))
	}
	if err := verifyDeltas(encoding, data[skip:]); err != nil {
		return fmt.Errorf("a page of encoding %s: %w", encoding, err)
	}
	return nil
}

func verifyDeltas(encoding parquet.Encoding, data []byte) error {
	h, rest, err := readDeltaHeader(data)
	if err != nil || encoding == parquet.Encodings.DeltaBinaryPacked {
		return err
	}
	if h.values > maxDeltaValues {
		return fmt.Errorf("%d texts, want at most %d", h.values, maxDeltaValues)
	}
	if encoding == parquet.Encodings.DeltaLengthByteArray {
		return nil
	}
	// The lengths that a text has in common with the one before, and then those of its own bytes.
	common, rest, err := h.lengths(rest)
	if err != nil {
		return err
	}
	if h, rest, err = readDeltaHeader(rest); err != nil {
		return err
	}
	if h.values != uint64(len(common)) {
		return fmt.Errorf("%d texts have %d lengths", len(common), h.values)
	}
	own, _, err := h.lengths(rest)
	if err != nil {
		return err
	}
	total := int64(0)
	for i, n := range own {
		if n < 0 || common[i] < 0 { // they would make up for others in the sum
			return fmt.Errorf("text %d has %d bytes in common with the one before, and %d of its own", i+1,
				common[i], n)
		}
		if n != 0 { // else it is not copied
			total += int64(n) + int64(common[i])
		}
	}
	if total > maxBody {
		return fmt.Errorf("the texts have %d bytes, want at most %d", total, maxBody)
	}
	return nil
}

// deltaHeader is the header of differences: integers in blocks of equal parts, of which each packs
// the differences in its own number of bits.
type deltaHeader struct {
	block, parts, values uint64
	first                int64
}

var errDeltas = errors.New("the page ends within the differences")

// readDeltaHeader returns the bytes after the header.
func readDeltaHeader(data []byte) (h deltaHeader, rest []byte, err error) {
	for _, v := range []*uint64{&h.block, &h.parts, &h.values} {
		n := 0
		if *v, n = binary.Uvarint(data); n <= 0 {
			return h, nil, errDeltas
		}
		data = data[n:]
	}
	if h.block > maxDeltaBlock || h.parts == 0 || h.parts > h.block || h.block%(32*h.parts) != 0 {
		return h, nil, fmt.Errorf("blocks have %d values in %d parts, want at most %d in parts of multiples of 32",
			h.block, h.parts, maxDeltaBlock)
	}
	n := 0
	if h.first, n = binary.Varint(data); n <= 0 {
		return h, nil, errDeltas
	}
	return h, data[n:], nil
}

// lengths decodes lengths, and returns the bytes after them.
func (h *deltaHeader) lengths(data []byte) (list []int32, rest []byte, err error) {
	last := h.first
	if h.values > 0 {
		list = append(make([]int32, 0, h.values), int32(last))
	}
	for uint64(len(list)) < h.values {
		least, n := binary.Varint(data)
		if n <= 0 || uint64(len(data)-n) < h.parts {
			return nil, nil, errDeltas
		}
		widths := data[n:][:h.parts]
		data = data[n+len(widths):]
		for _, width := range widths {
			left := h.values - uint64(len(list))
			if left == 0 {
				break
			}
			size := h.block / h.parts
			bytes := size * uint64(width) / 8
			if width > 32 || uint64(len(data)) < bytes {
				return nil, nil, errDeltas
			}
			packed, have, at := uint64(0), 0, 0
			for range min(left, size) {
				for ; have < int(width); have += 8 {
					packed |= uint64(data[at]) << have
					at++
				}
				last += least + int64(packed&(1<<width-1))
				packed, have = packed>>width, have-int(width)
				list = append(list, int32(last))
			}
			data = data[bytes:]
		}
	}
	return list, data, nil
}
