package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// shapeModel takes images of any size. Its output is the number of rows of the run.
type shapeModel struct{ runs []int }

func (*shapeModel) Inputs() []onward.NodeArg {
	free := onward.Dim{Value: -1}
	return []onward.NodeArg{onward.NewNodeArg("x", tensor.Type{Kind: tensor.KindTensor, Elem: tensor.TypeFloat32},
		[]onward.Dim{free, {Value: 3}, free, free})}
}

func (*shapeModel) OverridableInitializers() []onward.NodeArg { return nil }

func (*shapeModel) Outputs() []onward.NodeArg {
	return []onward.NodeArg{onward.NewNodeArg("rows", tensor.Type{Kind: tensor.KindTensor, Elem: tensor.TypeInt64},
		[]onward.Dim{{Value: -1}})}
}

func (*shapeModel) Provider() string { return "test" }

func (m *shapeModel) Run(_ context.Context, in onward.Values, _ *onward.RunOptions) (onward.Values, error) {
	n := in["x"].(*tensor.Tensor).Shape()[0]
	m.runs = append(m.runs, n)
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(n)
	}
	t, err := tensor.New(out, n)
	return onward.Values{"rows": t}, err
}

// square is a PNG image of size×size pixels of a bit each, in few bytes.
func square(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{color.Black,
		color.White})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func imageColumn(images ...[]byte) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{field("x", arrow.BinaryTypes.Binary)}, nil))
	b.Field(0).(*array.BinaryBuilder).AppendValues(images, nil)
	return b.NewRecordBatch()
}

// TestLargeImages scores images of free sizes that take more than a batch together, and one that
// takes more than is allowed.
func TestLargeImages(t *testing.T) {
	large, small := square(t, 1000), square(t, 10) // 12 MB as numbers
	huge := bytes.Clone(small)
	binary.BigEndian.PutUint32(huge[16:], 10_000) // width and height, and the checksum of the header
	binary.BigEndian.PutUint32(huge[20:], 10_000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	rec := imageColumn(large, large, large, nil, huge, large, small, small)
	for _, c := range []struct {
		batch int
		runs  string
	}{{0, "[2 1 1 2]"}, {8, "[3 1 2]"}} {
		m := new(shapeModel)
		s, err := NewScorer(t.Context(), m, rec.Schema(), &Options{OnError: Null, Keep: []string{}, Batch: c.batch})
		if err != nil {
			t.Fatal(err)
		}
		res, rejected, err := s.Score(t.Context(), rec)
		if err != nil || len(rejected) != 2 || rejected[0].Row != 3 || rejected[1].Row != 4 ||
			!strings.Contains(rejected[1].Reason, "10000×10000 pixels with 3 values each, want at most 268435456") {
			t.Fatalf("%v; rejected %v", err, rejected)
		}
		if got, want := fmt.Sprint(m.runs), c.runs; got != want || res.NumRows() != rec.NumRows() {
			t.Errorf("batch %d: runs of %s rows, want %s; %d rows", c.batch, got, want, res.NumRows())
		}
	}
}

// countingContext ends after a number of calls of Err.
type countingContext struct {
	context.Context
	left atomic.Int64
}

func (c *countingContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestDecodingOfImagesStops ends the context while images of a table are decoded.
func TestDecodingOfImagesStops(t *testing.T) {
	rec := imageColumn(square(t, 1000), square(t, 1000), square(t, 1000), square(t, 1000))
	s, err := NewScorer(t.Context(), new(shapeModel), rec.Schema(), &Options{OnError: Null, Batch: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, calls := range []int64{0, 100} { // before the first image, and within it
		ctx := &countingContext{Context: t.Context()}
		ctx.left.Store(calls)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := s.Score(ctx, rec)
		runtime.ReadMemStats(&after)
		// The images take 4 MB each before their values, and 16 MB with them.
		limit := map[int64]uint64{0: 1 << 20, 100: 24 << 20}[calls]
		if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, context.Canceled) || n > limit {
			t.Errorf("after %d calls: error %v, %d bytes allocated", calls, err, n)
		}
	}
}
