package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// arrowStream reads an Arrow IPC stream.
type arrowStream struct {
	r      *ipc.Reader
	in     *messages
	prefix string
	file   *os.File // or nil
	size   int64
}

func newArrowStream(r io.Reader, prefix string, file *os.File) (s source, err error) {
	in, err := verifyStream(r)
	if err != nil {
		return nil, err
	}
	rd, err := ipc.NewReaderFromMessageReader(in, ipc.WithAllocator(in.mem))
	if err != nil {
		return nil, err
	}
	a := &arrowStream{r: rd, in: in, prefix: prefix, file: file}
	if file != nil {
		if info, err := file.Stat(); err == nil {
			a.size = info.Size()
		}
	}
	return a, nil
}

func (a *arrowStream) schema() *arrow.Schema { return a.r.Schema() }

func (a *arrowStream) spans() []span { return []span{{bytes: a.size, rows: -1}} }

func (a *arrowStream) read(ctx context.Context, _ span, columns []int, yield func(chunk) error) error {
	row := int64(1)
	a.in.ctx = ctx
	for a.in.mem.next(); a.r.Next(); a.in.mem.next() {
		rec := a.r.RecordBatch()
		if err := verifyRecord(ctx, rec); err != nil {
			return err
		}
		rec.Retain()
		if err := yield(chunk{rec: project(rec, columns), place: place{prefix: a.prefix, first: row}}); err != nil {
			return err
		}
		row += rec.NumRows()
	}
	if err := a.r.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (a *arrowStream) stat() (fs.FileInfo, error) { return a.file.Stat() }

func (a *arrowStream) Close() error {
	if a.file != nil {
		return a.file.Close()
	}
	return nil
}

// arrowFile reads an Arrow IPC file. A span is a range of record batches.
type arrowFile struct {
	f    *os.File
	r    *ipc.FileReader
	mem  *budget
	name string
	size int64
	v    *messageVerifier
	at   []int64 // positions of the record batches
}

func openArrowFile(f *os.File, info fs.FileInfo) (source, error) {
	v := new(messageVerifier)
	at, err := v.footer(f, info.Size())
	if err != nil {
		return nil, err
	}
	mem := new(budget)
	r, err := ipc.NewFileReader(f, ipc.WithAllocator(mem), ipc.WithMetadataSizeLimit(maxMetadata),
		ipc.WithBodySizeLimit(maxBody))
	if err != nil {
		return nil, err
	}
	return &arrowFile{f, r, mem, filepath.Base(f.Name()), info.Size(), v, at}, nil
}

func (a *arrowFile) schema() *arrow.Schema { return a.r.Schema() }

// spans assumes that all record batches have the same size.
func (a *arrowFile) spans() []span {
	n := int64(a.r.NumRecords())
	if n == 0 {
		return nil
	}
	step := max(1, min(n, n*pieceBytes/max(1, a.size)))
	var list []span
	for k := int64(0); k < n; k += step {
		to := min(k+step, n)
		list = append(list, span{from: k, to: to, bytes: a.size * (to - k) / n, rows: -1})
	}
	return list
}

func (a *arrowFile) read(ctx context.Context, s span, columns []int, yield func(chunk) error) error {
	for k := s.from; k < s.to; k++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := a.v.block(a.f, a.at[k]); err != nil {
			return fmt.Errorf("record batch %d: %w", k+1, err)
		}
		a.mem.next()
		rec, err := a.r.RecordBatchAt(int(k))
		if err != nil {
			return fmt.Errorf("record batch %d: %w", k+1, err)
		}
		if err := verifyRecord(ctx, rec); err != nil {
			return fmt.Errorf("record batch %d: %w", k+1, err)
		}
		if err := yield(chunk{rec: project(rec, columns),
			place: place{prefix: fmt.Sprintf("%s record batch %d, row ", a.name, k+1), first: 1}}); err != nil {
			return err
		}
	}
	return nil
}

func (a *arrowFile) stat() (fs.FileInfo, error) { return a.f.Stat() }

func (a *arrowFile) Close() error { return errors.Join(a.r.Close(), a.f.Close()) }
