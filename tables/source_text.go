package tables

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
)

const textHead = 1 << 20 // bytes of a text that determine the columns

// maxLine is the largest size of a record of a text, in bytes.
var maxLine = 64 << 20

// A decoder decodes the records of a text format.
type decoder interface {
	// open reads the columns from the beginning of a text, and returns the length of the header.
	open(head []byte) (*arrow.Schema, int, error)
	// quotes reports whether line breaks between double quotes do not end a record.
	quotes() bool
	// decode decodes the records that r holds. line counts the lines before it.
	decode(r io.Reader, line int64, columns []int,
		yield func(rec arrow.RecordBatch, reasons []string, lines []int64) error) error
}

// text is a source over a text format. A span is a range of bytes: it has the records that
// begin in the range.
type text struct {
	decoder
	types  *arrow.Schema
	prefix string
	header int64

	stream io.Reader // without the header; or nil
	f      *os.File
	size   int64
	marks  map[int64]mark // by position
	at     mark           // the position up to which quotes and lines are counted
}

// A mark is the beginning of a record.
type mark struct {
	pos, lines int64
	quoted     bool // pos is between quotes
	long       bool // pos is within a record that is longer than maxLine
}

// interruptible is a reader that fails when the context ends.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

func newText(prefix string, r io.Reader, newDecoder func() decoder) (source, error) {
	b := bufio.NewReaderSize(r, textHead)
	head, err := b.Peek(textHead)
	if err != nil && err != io.EOF {
		return nil, err
	}
	t := &text{decoder: newDecoder(), prefix: prefix, stream: b}
	n := 0
	if t.types, n, err = t.open(head); err != nil {
		return nil, err
	}
	b.Discard(n)
	t.header = int64(n)
	t.at.lines = int64(bytes.Count(head[:n], []byte("\n")))
	return t, nil
}

func openText(f *os.File, info fs.FileInfo, newDecoder func() decoder) (source, error) {
	s, err := newText(filepath.Base(f.Name())+" line ", f, newDecoder)
	if err != nil {
		return nil, err
	}
	t := s.(*text)
	t.stream, t.f, t.size, t.marks, t.at = nil, f, info.Size(), map[int64]mark{}, mark{}
	return t, nil
}

func (t *text) schema() *arrow.Schema { return t.types }

func (t *text) spans() []span {
	if t.f == nil {
		return []span{{rows: -1}}
	}
	var list []span
	for lo := int64(0); lo < t.size; lo += pieceBytes {
		hi := min(lo+pieceBytes, t.size)
		list = append(list, span{from: lo, to: hi, bytes: hi - lo, rows: -1})
	}
	return list
}

func (t *text) read(ctx context.Context, s span, columns []int, yield func(chunk) error) error {
	r, lines := t.stream, t.at.lines
	if t.f != nil {
		from, err := t.boundary(ctx, s.from)
		if err != nil {
			return err
		}
		if from.long {
			return fmt.Errorf("line %d: the line is within a record %w", from.lines+1, errLong(t.quotes()))
		}
		to, err := t.boundary(ctx, s.to) // if it is within a long record, decode fails
		if err != nil {
			return err
		}
		r, lines = io.NewSectionReader(t.f, from.pos, to.pos-from.pos), from.lines
	}
	r = interruptible{ctx, r}
	return t.decode(r, lines, columns, func(rec arrow.RecordBatch, reasons []string, numbers []int64) error {
		return yield(chunk{rec, reasons, place{prefix: t.prefix, lines: numbers}})
	})
}

// errLong says that a record is longer than maxLine.
func errLong(quotes bool) error {
	if quotes {
		return fmt.Errorf("longer than %d bytes: close its quote, or write a quote in a field as two", maxLine)
	}
	return fmt.Errorf("longer than %d bytes", maxLine)
}

// boundary returns the beginning of the first record at pos or after it. It stops within a record
// that is longer than maxLine.
func (t *text) boundary(ctx context.Context, pos int64) (mark, error) {
	if m, ok := t.marks[pos]; ok {
		return m, nil
	}
	want := max(pos, t.header)
	if want > 0 {
		want-- // a line break just before pos ends a record
	}
	if want < t.at.pos {
		t.at = mark{}
	}
	buf := make([]byte, 1<<20)
	for t.at.pos < want {
		if ctx.Err() != nil {
			return mark{}, context.Cause(ctx)
		}
		b := buf[:min(int64(len(buf)), want-t.at.pos)]
		if _, err := t.f.ReadAt(b, t.at.pos); err != nil {
			return mark{}, err
		}
		t.at.pos += int64(len(b))
		t.at.lines += int64(bytes.Count(b, []byte("\n")))
		t.at.quoted = t.at.quoted != (t.quotes() && bytes.Count(b, []byte(`"`))%2 == 1)
	}
	m := t.at
	if pos == 0 && t.header == 0 {
		t.marks[pos] = m
		return m, nil
	}
	at := mark{pos: m.pos, lines: m.lines}
	r := bufio.NewReader(interruptible{ctx, io.NewSectionReader(t.f, m.pos, t.size-m.pos)})
	for {
		if m.pos-at.pos > int64(maxLine) {
			m.long, m.lines = true, at.lines
			break
		}
		c, err := r.ReadByte()
		if err == io.EOF {
			break
		}
		if err != nil {
			return mark{}, err
		}
		m.pos++
		if c == '"' && t.quotes() {
			m.quoted = !m.quoted
		}
		if c == '\n' {
			m.lines++
			if !m.quoted {
				break
			}
		}
	}
	t.marks[pos] = m
	return m, nil
}

func (t *text) stat() (fs.FileInfo, error) { return t.f.Stat() }

func (t *text) Close() error {
	if t.f != nil {
		return t.f.Close()
	}
	return nil
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			if long = append(long, part...); len(long) > maxLine {
				return nil, fmt.Errorf("a line is %w", errLong(false))
			}
			continue
		}
		if long != nil {
			part = append(long, part...)
		}
		if len(part) > maxLine {
			return nil, fmt.Errorf("a line is %w", errLong(false))
		}
		if err == io.EOF && len(part) > 0 {
			err = nil
		}
		return bytes.TrimRight(part, "\r\n"), err
	}
}
