package serve

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	grpcstats "google.golang.org/grpc/stats"

	"github.com/onward-ml/onward/serve/inference"
)

// TestCompressorsCount checks that what compresses the messages of a call counts once, until the
// call has ended.
func TestCompressorsCount(t *testing.T) {
	const size = 64 << 10 // so that all of a call takes less than what compresses it
	for method, requests := range map[string]int{"ModelInfer": 1, "ModelStreamInfer": 3} {
		t.Run(method, func(t *testing.T) {
			s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: widening(t, size/4)}}})
			held := s.memory.Used()
			for i, more := range [][][2]string{nil, {{"grpc-encoding", "gzip"}}} {
				c := newRawClient(t, s)
				go io.Copy(io.Discard, c.Conn)
				c.frame(frameSettings, 0, 0, noWindow)
				if err := c.infer(method, requests, more...); err != nil {
					t.Fatal(err)
				}
				least := int64(connectionCost + 2*size + i*deflateCost)
				waitFor(t, "the responses count", func() bool {
					n := s.memory.Used() - held
					return n >= least && n < least+deflateCost
				})
				c.Close()
				waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
			}
		})
	}
}

// payloads counts the messages that a client receives, and those of them that are compressed.
type payloads struct{ all, compressed int }

func (p *payloads) HandleRPC(_ context.Context, s grpcstats.RPCStats) {
	if m, ok := s.(*grpcstats.InPayload); ok {
		p.all++
		if m.CompressedLength < m.Length {
			p.compressed++
		}
	}
}
func (*payloads) TagRPC(ctx context.Context, _ *grpcstats.RPCTagInfo) context.Context   { return ctx }
func (*payloads) TagConn(ctx context.Context, _ *grpcstats.ConnTagInfo) context.Context { return ctx }
func (*payloads) HandleConn(context.Context, grpcstats.ConnStats)                       {}

// TestCompressedResponses checks that responses are compressed if the client compresses, they are
// long, and there is memory for it.
func TestCompressedResponses(t *testing.T) {
	const total = 16 << 20
	for _, x := range []struct {
		name           string
		floats         int64
		free           int64 // bytes of memory; 0: all
		gzip, compress bool
	}{
		{"long", 4096, 0, true, true},
		{"short", 100, 0, true, false},
		{"not wanted", 4096, 0, false, false},
		{"without memory", 4096, deflateCost, true, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newServer(t, "",
				&Options{Models: []Model{{Name: "m", Data: widening(t, x.floats)}}, TotalMemory: total})
			got := &payloads{}
			c := inference.NewGRPCInferenceServiceClient(dialConn(t, s, grpc.WithStatsHandler(got)))
			var opts []grpc.CallOption
			if x.gzip {
				opts = append(opts, grpc.UseCompressor("gzip"))
			}
			if x.free > 0 {
				if err := s.memory.Reserve(total - x.free - s.memory.Used()); err != nil {
					t.Fatal(err)
				}
			}
			m := message("m", "FP32", []int64{1}, "1234")
			if _, err := c.ModelInfer(t.Context(), m, opts...); err != nil {
				t.Fatal(err)
			}
			st, err := c.ModelStreamInfer(t.Context(), opts...)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				st.Send(m)
				if r, err := st.Recv(); err != nil || r.ErrorMessage != "" {
					t.Fatalf("%v %s", err, r.GetErrorMessage())
				}
			}
			want := payloads{all: 3}
			if x.compress {
				want.compressed = 3
			}
			if *got != want {
				t.Errorf("%+v messages, want %+v", *got, want)
			}
		})
	}
}
