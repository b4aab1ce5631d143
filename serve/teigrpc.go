package serve

import (
	"context"
	"io"
	"math"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/serve/tei"
)

// teiService serves model folders over the gRPC protocol of Text Embeddings Inference. The
// metadata "model" of a call names one of several.
type teiService struct {
	tei.UnimplementedInfoServer
	tei.UnimplementedEmbedServer
	tei.UnimplementedPredictServer
	tei.UnimplementedRerankServer
	tei.UnimplementedTokenizeServer
	s *Server
}

// registerTEI registers the services.
func (s *Server) registerTEI(g grpc.ServiceRegistrar) {
	t := &teiService{s: s}
	tei.RegisterInfoServer(g, t)
	tei.RegisterEmbedServer(g, t)
	tei.RegisterPredictServer(g, t)
	tei.RegisterRerankServer(g, t)
	tei.RegisterTokenizeServer(g, t)
}

// modelOf returns the model that the metadata of a call names, or "".
func modelOf(ctx context.Context) string {
	if l := metadata.ValueFromIncomingContext(ctx, "model"); len(l) == 1 {
		return l[0]
	}
	return ""
}

// answerTEI runs the handler of an endpoint, whose result is a T.
func answerTEI[T any](s *Server, ctx context.Context, h textHandler,
	q *textRequest) (out T, m *tei.Metadata, err error) {
	if n := len(q.prompt); n > maxName {
		return out, nil, &Error{InvalidArgument, tooLong("prompt_name", n, maxName)}
	}
	done, err := s.admit()
	if err != nil {
		return out, nil, err
	}
	defer done()
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	c := &textContext{Context: ctx, s: s, memory: &reservation{s: s}, received: time.Now(), model: modelOf(ctx)}
	defer c.memory.release()
	x, err := h(c, q)
	if err != nil {
		return out, nil, err
	}
	m = &tei.Metadata{ComputeChars: uint32(c.characters), TotalTimeNs: uint64(time.Since(c.received))}
	if a := c.answer; a != nil {
		m.ComputeTokens, m.TokenizationTimeNs = uint32(a.tokens), uint64(a.tokenized)
		m.QueueTimeNs = uint64(max(0, a.job.started.Sub(a.job.queued)))
		m.InferenceTimeNs = uint64(max(0, a.job.inferDone.Sub(a.job.started)))
	}
	return x.(T), m, nil
}

// streamTEI answers the messages of a stream in their order. Up to maxStreamed run at a time.
func streamTEI[Q, R any](s *Server, st grpc.BidiStreamingServer[Q, R],
	answer func(context.Context, *Q) (*R, error)) error {
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	type result struct {
		resp   *R
		err    error
		memory *reservation // of resp
	}
	running := make(chan chan result, maxStreamed)
	ended := make(chan error, 1)
	defer func() {
		go func() { // after an error; Recv fails once the stream has ended
			for r := range running {
				(<-r).memory.release()
			}
		}()
	}()
	go func() {
		defer close(running)
		for {
			q, err := st.Recv()
			if err != nil {
				ended <- err
				return
			}
			memory := &reservation{s: s}
			err = s.decode(any(q).(proto.Message), memory)
			r := make(chan result, 1)
			select {
			case running <- r:
			case <-ctx.Done():
				memory.release()
				ended <- ctx.Err()
				return
			}
			go func() {
				x := result{err: err, memory: memory}
				func() {
					defer s.recovered("stream", &x.err)
					if x.err == nil {
						x.resp, x.err = answer(ctx, q)
					}
					if x.err == nil {
						x.err = memory.become(int64(proto.Size(any(x.resp).(proto.Message))))
					}
				}()
				r <- x
			}()
		}
	}()
	for r := range running {
		x := <-r
		if x.err == nil {
			x.err = st.Send(x.resp)
		}
		x.memory.release()
		if x.err != nil {
			return x.err
		}
	}
	if err := <-ended; err != io.EOF {
		return err
	}
	return nil
}

func (t *teiService) Info(ctx context.Context, _ *tei.InfoRequest) (*tei.InfoResponse, error) {
	v, err := t.s.folder(modelOf(ctx))
	if err != nil {
		return nil, err
	}
	defer v.release()
	kind := tei.ModelType_MODEL_TYPE_EMBEDDING
	switch v.texts.task {
	case pipeline.TextClassification:
		kind = tei.ModelType_MODEL_TYPE_CLASSIFIER
	case pipeline.TextRanking:
		kind = tei.ModelType_MODEL_TYPE_RERANKER
	}
	limit := v.texts.maxTokens
	if limit == 0 {
		limit = math.MaxInt32
	}
	return &tei.InfoResponse{Version: onward.Version(), ModelId: v.model, ModelDtype: "float32", ModelType: kind,
		MaxConcurrentRequests: uint32(t.s.opts.MaxRequests), MaxInputLength: uint32(limit),
		MaxBatchTokens: uint32(t.s.opts.MaxBatchTokens), MaxClientBatchSize: maxTexts,
		TokenizationWorkers: uint32(runtime.GOMAXPROCS(0))}, nil
}

// oneText returns a request for a text.
func oneText(text string, cut bool, side tei.TruncationDirection) *textRequest {
	return &textRequest{inputs: []textInput{{text: text}}, single: true, keep: !cut,
		left: side == tei.TruncationDirection_TRUNCATION_DIRECTION_LEFT}
}

func (t *teiService) Embed(ctx context.Context, r *tei.EmbedRequest) (*tei.EmbedResponse, error) {
	q := oneText(r.Inputs, r.Truncate, r.TruncationDirection)
	q.prompt, q.plain, q.dimensions = r.GetPromptName(), r.Normalize != nil && !*r.Normalize, int(r.GetDimensions())
	v, m, err := answerTEI[[][]float32](t.s, ctx, teiEmbed, q)
	if err != nil {
		return nil, err
	}
	return &tei.EmbedResponse{Embeddings: v[0], Metadata: m}, nil
}

// EmbedStream answers the messages of a stream as Embed does.
func (t *teiService) EmbedStream(st grpc.BidiStreamingServer[tei.EmbedRequest, tei.EmbedResponse]) error {
	return streamTEI(t.s, st, t.Embed)
}

func (t *teiService) EmbedSparse(ctx context.Context, r *tei.EmbedSparseRequest) (*tei.EmbedSparseResponse, error) {
	q := oneText(r.Inputs, r.Truncate, r.TruncationDirection)
	q.prompt = r.GetPromptName()
	v, m, err := answerTEI[[][]weightJSON](t.s, ctx, teiEmbedSparse, q)
	if err != nil {
		return nil, err
	}
	resp := &tei.EmbedSparseResponse{Metadata: m}
	for _, w := range v[0] {
		resp.SparseEmbeddings = append(resp.SparseEmbeddings, &tei.SparseValue{Index: uint32(w.Index), Value: w.Value})
	}
	return resp, nil
}

// EmbedSparseStream answers the messages of a stream as EmbedSparse does.
func (t *teiService) EmbedSparseStream(
	st grpc.BidiStreamingServer[tei.EmbedSparseRequest, tei.EmbedSparseResponse]) error {
	return streamTEI(t.s, st, t.EmbedSparse)
}

func (t *teiService) EmbedAll(ctx context.Context, r *tei.EmbedAllRequest) (*tei.EmbedAllResponse, error) {
	q := oneText(r.Inputs, r.Truncate, r.TruncationDirection)
	q.prompt = r.GetPromptName()
	v, m, err := answerTEI[[][][]float32](t.s, ctx, teiEmbedAll, q)
	if err != nil {
		return nil, err
	}
	resp := &tei.EmbedAllResponse{Metadata: m}
	for _, token := range v[0] {
		resp.TokenEmbeddings = append(resp.TokenEmbeddings, &tei.TokenEmbedding{Embeddings: token})
	}
	return resp, nil
}

// EmbedAllStream answers the messages of a stream as EmbedAll does.
func (t *teiService) EmbedAllStream(st grpc.BidiStreamingServer[tei.EmbedAllRequest, tei.EmbedAllResponse]) error {
	return streamTEI(t.s, st, t.EmbedAll)
}

func (t *teiService) predict(ctx context.Context, q *textRequest) (*tei.PredictResponse, error) {
	v, m, err := answerTEI[[]predictionJSON](t.s, ctx, teiPredict, q)
	if err != nil {
		return nil, err
	}
	resp := &tei.PredictResponse{Metadata: m}
	for _, p := range v {
		resp.Predictions = append(resp.Predictions, &tei.Prediction{Score: p.Score, Label: p.Label})
	}
	return resp, nil
}

func (t *teiService) Predict(ctx context.Context, r *tei.PredictRequest) (*tei.PredictResponse, error) {
	q := oneText(r.Inputs, r.Truncate, r.TruncationDirection)
	q.raw = r.RawScores
	return t.predict(ctx, q)
}

func (t *teiService) PredictPair(ctx context.Context, r *tei.PredictPairRequest) (*tei.PredictResponse, error) {
	if n := len(r.Inputs); n != 1 && n != 2 {
		return nil, errorf(InvalidArgument, "the request has %d texts, want 1 or 2", n)
	}
	q := oneText("", r.Truncate, r.TruncationDirection)
	q.raw, q.inputs[0] = r.RawScores, pairOf(r.Inputs)
	return t.predict(ctx, q)
}

// PredictStream answers the messages of a stream as Predict does.
func (t *teiService) PredictStream(st grpc.BidiStreamingServer[tei.PredictRequest, tei.PredictResponse]) error {
	return streamTEI(t.s, st, t.Predict)
}

// PredictPairStream answers the messages of a stream as PredictPair does.
func (t *teiService) PredictPairStream(
	st grpc.BidiStreamingServer[tei.PredictPairRequest, tei.PredictResponse]) error {
	return streamTEI(t.s, st, t.PredictPair)
}

func (t *teiService) Rerank(ctx context.Context, r *tei.RerankRequest) (*tei.RerankResponse, error) {
	q := oneText("", r.Truncate, r.TruncationDirection)
	q.inputs, q.query, q.texts, q.raw, q.withText = nil, r.Query, r.Texts, r.RawScores, r.ReturnText
	v, m, err := answerTEI[[]rankJSON](t.s, ctx, teiRerank, q)
	if err != nil {
		return nil, err
	}
	resp := &tei.RerankResponse{Metadata: m}
	for _, d := range v {
		resp.Ranks = append(resp.Ranks, &tei.Rank{Index: uint32(d.Index), Text: d.Text, Score: d.Score})
	}
	return resp, nil
}

// RerankStream ranks the texts of all messages of a stream, which must arrive within ReadTimeout of
// the first. That one decides on the query, scores and texts.
func (t *teiService) RerankStream(st grpc.ClientStreamingServer[tei.RerankStreamRequest, tei.RerankResponse]) error {
	memory := &reservation{s: t.s}
	defer memory.release()
	all := &tei.RerankRequest{}
	var due time.Time
	for {
		r, err := st.Recv()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.s.decode(r, memory)
		}
		if err != nil {
			return err
		}
		if len(all.Texts) == 0 {
			all.Query, all.RawScores, all.ReturnText = r.Query, r.RawScores, r.ReturnText
			all.Truncate, all.TruncationDirection = r.Truncate, r.TruncationDirection
		}
		if all.Texts = append(all.Texts, r.Text); len(all.Texts) > maxTexts {
			return errorf(TooLarge, "the stream has more than %d texts", maxTexts)
		}
		if due.IsZero() {
			due = time.Now().Add(t.s.opts.ReadTimeout)
		}
		await(st.Context(), due)
	}
	resp, err := t.Rerank(st.Context(), all)
	if err != nil {
		return err
	}
	return st.SendAndClose(resp)
}

func (t *teiService) Tokenize(ctx context.Context, r *tei.EncodeRequest) (*tei.EncodeResponse, error) {
	q := &textRequest{inputs: []textInput{{text: r.Inputs}}, bare: !r.AddSpecialTokens, prompt: r.GetPromptName()}
	v, _, err := answerTEI[[][]tokenJSON](t.s, ctx, teiTokenize, q)
	if err != nil {
		return nil, err
	}
	resp := &tei.EncodeResponse{}
	for _, k := range v[0] {
		token := &tei.SimpleToken{Id: uint32(k.ID), Text: k.Text, Special: k.Special}
		if k.Start != nil {
			token.Start, token.Stop = proto.Uint32(uint32(*k.Start)), proto.Uint32(uint32(*k.Stop))
		}
		resp.Tokens = append(resp.Tokens, token)
	}
	return resp, nil
}

// TokenizeStream answers the messages of a stream as Tokenize does.
func (t *teiService) TokenizeStream(st grpc.BidiStreamingServer[tei.EncodeRequest, tei.EncodeResponse]) error {
	return streamTEI(t.s, st, t.Tokenize)
}

func (t *teiService) Decode(ctx context.Context, r *tei.DecodeRequest) (*tei.DecodeResponse, error) {
	ids := make([]int64, len(r.Ids))
	for i, id := range r.Ids {
		ids[i] = int64(id)
	}
	v, _, err := answerTEI[[]string](t.s, ctx, teiDecode,
		&textRequest{ids: [][]int64{ids}, withSpecial: !r.SkipSpecialTokens})
	if err != nil {
		return nil, err
	}
	return &tei.DecodeResponse{Text: v[0]}, nil
}

// DecodeStream answers the messages of a stream as Decode does.
func (t *teiService) DecodeStream(st grpc.BidiStreamingServer[tei.DecodeRequest, tei.DecodeResponse]) error {
	return streamTEI(t.s, st, t.Decode)
}
