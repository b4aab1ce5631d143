package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward/serve/tei"
)

// teiConn returns a connection to a server of model folders.
func teiConn(t *testing.T, o *Options, tasks ...string) *grpc.ClientConn {
	t.Helper()
	_, address := listen(t, newServer(t, folders(t, tasks...), o))
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestTextGRPC calls each method of Text Embeddings Inference.
func TestTextGRPC(t *testing.T) {
	conn := teiConn(t, nil, "embedder", "sparse", "reranker", "classifier")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	to := func(model string) context.Context { return metadata.AppendToOutgoingContext(ctx, "model", model) }
	embed, predict, tok := tei.NewEmbedClient(conn), tei.NewPredictClient(conn), tei.NewTokenizeClient(conn)
	check := func(what string, m proto.Message, err error, want string, got func() any) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if s := fmt.Sprint(got()); s != want {
			t.Errorf("%s: %s of %v, want %s", what, s, m, want)
		}
	}
	e, err := embed.Embed(ctx, &tei.EmbedRequest{Inputs: "a cat", Dimensions: proto.Uint32(1)})
	check("Embed", e, err, "[1] 4 5", func() any {
		return fmt.Sprint(e.Embeddings, e.Metadata.ComputeTokens, e.Metadata.ComputeChars)
	})
	s, err := embed.EmbedSparse(ctx, &tei.EmbedSparseRequest{Inputs: "cat"})
	check("EmbedSparse", s, err, "8", func() any { return s.SparseEmbeddings[0].Index })
	a, err := embed.EmbedAll(ctx, &tei.EmbedAllRequest{Inputs: "cat"})
	check("EmbedAll", a, err, "3 [4 1 0 0]", func() any {
		return fmt.Sprint(len(a.TokenEmbeddings), a.TokenEmbeddings[1].Embeddings)
	})
	p, err := predict.Predict(to("classifier"), &tei.PredictRequest{Inputs: "good", RawScores: true})
	check("Predict", p, err, "POSITIVE", func() any { return p.Predictions[0].Label })
	p, err = predict.PredictPair(to("reranker"),
		&tei.PredictPairRequest{Inputs: []string{"cat", "cat"}, RawScores: true})
	check("PredictPair", p, err, "1", func() any { return p.Predictions[0].Score })
	r, err := tei.NewRerankClient(conn).Rerank(ctx,
		&tei.RerankRequest{Query: "cat", Texts: []string{"dog", "cat"}, ReturnText: true, RawScores: true})
	check("Rerank", r, err, "1 cat", func() any { return fmt.Sprint(r.Ranks[0].Index, " ", *r.Ranks[0].Text) })
	k, err := tok.Tokenize(to("embedder"), &tei.EncodeRequest{Inputs: "a cat", AddSpecialTokens: true})
	check("Tokenize", k, err, "2 5", func() any { return fmt.Sprint(*k.Tokens[2].Start, *k.Tokens[2].Stop) })
	d, err := tok.Decode(to("embedder"), &tei.DecodeRequest{Ids: []uint32{2, 5, 8, 3}})
	check("Decode", d, err, "[CLS] a cat [SEP]", func() any { return d.Text })
	i, err := tei.NewInfoClient(conn).Info(to("reranker"), &tei.InfoRequest{})
	check("Info", i, err, "MODEL_TYPE_RERANKER 64", func() any { return fmt.Sprint(i.ModelType, i.MaxInputLength) })

	for _, c := range []struct {
		model, text string
		want        codes.Code
	}{{"reranker", "a", codes.Unimplemented}, {"missing", "a", codes.NotFound},
		{"embedder", strings.Repeat("cat ", 100), codes.ResourceExhausted}} { // the model takes 64 tokens
		if _, err := embed.Embed(to(c.model), &tei.EmbedRequest{Inputs: c.text}); status.Code(err) != c.want {
			t.Errorf("%s: got %v, want %v", c.model, err, c.want)
		}
	}
	if _, err := predict.PredictPair(ctx, &tei.PredictPairRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("PredictPair without texts: %v", err)
	}
}

// TestTextGRPCStreams sends more messages than run at a time. The answers are in their order.
func TestTextGRPCStreams(t *testing.T) {
	conn := teiConn(t, nil, "embedder", "reranker")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := tei.NewEmbedClient(conn).EmbedStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3 * maxStreamed
	go func() {
		for i := range n {
			st.Send(&tei.EmbedRequest{Inputs: "cat", Dimensions: proto.Uint32(uint32(1 + i%4))})
		}
		st.CloseSend()
	}()
	for i := range n {
		r, err := st.Recv()
		if err != nil || len(r.Embeddings) != 1+i%4 {
			t.Fatalf("answer %d: %v, %v, want %d numbers", i, r, err, 1+i%4)
		}
	}
	if _, err := st.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
	// An invalid message ends the stream with its error.
	if st, err = tei.NewEmbedClient(conn).EmbedStream(ctx); err != nil {
		t.Fatal(err)
	}
	st.Send(&tei.EmbedRequest{Inputs: "cat", PromptName: proto.String("query")})
	if _, err := st.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a missing prompt: %v", err)
	}
	rank, err := tei.NewRerankClient(conn).RerankStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"dog", "cat"} {
		rank.Send(&tei.RerankStreamRequest{Query: "cat", Text: text})
	}
	if r, err := rank.CloseAndRecv(); err != nil || len(r.Ranks) != 2 || r.Ranks[0].Index != 1 {
		t.Errorf("RerankStream: %v, %v", r, err)
	}
}

// TestUnfinishedRerankStreams leaves a stream open after a text, and sends texts without end.
func TestUnfinishedRerankStreams(t *testing.T) {
	s := newServer(t, folders(t, "reranker"), &Options{ReadTimeout: 100 * time.Millisecond})
	held := s.memory.Used()
	conn := dialConn(t, s)
	for name, endless := range map[string]bool{"open": false, "endless": true} {
		st, err := tei.NewRerankClient(conn).RerankStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range maxTexts {
			if st.Send(&tei.RerankStreamRequest{Query: "cat", Text: "dog"}) != nil || !endless {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := st.RecvMsg(&tei.RerankResponse{}); status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v, want CANCELLED", name, err)
		}
	}
	conn.Close()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held && s.calls.Load() == 0 })
}

// TestLongPromptNames checks that the error of a call does not repeat the name of a prompt.
func TestLongPromptNames(t *testing.T) {
	const size, most = 6 << 20, 40 << 20
	conn := teiConn(t, nil, "embedder", "sparse")
	name := proto.String(strings.Repeat("\x01", size))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "model", "embedder")
	for what, f := range map[string]func() error{
		"Embed": func() error {
			_, err := tei.NewEmbedClient(conn).Embed(ctx, &tei.EmbedRequest{Inputs: "a", PromptName: name})
			return err
		},
		"Tokenize": func() error {
			_, err := tei.NewTokenizeClient(conn).Tokenize(ctx, &tei.EncodeRequest{Inputs: "a", PromptName: name})
			return err
		},
	} {
		var err error
		n := allocated(func() { err = f() })
		if status.Code(err) != codes.InvalidArgument || n > most { // the client's copies count, too
			t.Errorf("%s: %.200v allocates %d MiB for %d, want at most %d", what, err, n>>20, size>>20, most>>20)
		}
	}
}

// TestTextGRPCToken refuses calls without a token.
func TestTextGRPCToken(t *testing.T) {
	conn := teiConn(t, &Options{Tokens: []string{"secret"}}, "embedder")
	if _, err := tei.NewEmbedClient(conn).Embed(t.Context(), &tei.EmbedRequest{Inputs: "a"}); status.Code(err) !=
		codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}
