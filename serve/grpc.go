package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // compressed responses
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/serve/tei"
	"github.com/onward-ml/onward/tensor"
)

// maxStreamed is the number of requests of one stream that are in progress at the same time.
const maxStreamed = 64

// GRPCOptions returns options for the grpc.Server that the server is registered on: the size
// of messages, keep-alive, authorization, and errors instead of panics.
func (s *Server) GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(min(s.opts.MaxBody, math.MaxInt32))),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ReadBufferSize(0), // meteredConn has the buffer
		grpc.ConnectionTimeout(min(s.opts.ReadTimeout, 20*time.Second)),
		// Goroutines that serve one stream after another need not grow their stack for each.
		grpc.NumStreamWorkers(uint32(2 * runtime.GOMAXPROCS(0))),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second,
			PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxGRPCStreams),
		grpc.Creds(s.GRPCCredentials(insecure.NewCredentials())),
		grpc.InTapHandle(s.tapGRPC),
		grpc.ForceServerCodecV2(newCodec(s)),
		//lint:ignore SA1019 encoding.RegisterCompressor is for the process, not for one server and its memory
		grpc.RPCDecompressor(decompressor{s}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			h grpc.UnaryHandler) (resp any, err error) {
			defer s.ended(ctx)
			defer s.recovered(info.FullMethod, &err)
			arrived(ctx)
			memory := &reservation{s: s}
			defer memory.release()
			if m, ok := req.(proto.Message); ok {
				err = s.decode(m, memory)
			}
			if mu := s.describes(req); mu != nil {
				mu.Lock()
				defer mu.Unlock() // after hold
			}
			if err == nil {
				resp, err = h(ctx, req)
			}
			if err == nil {
				err = hold(ctx, resp)
			}
			return resp, s.grpcError(info.FullMethod, err)
		}),
		grpc.ChainStreamInterceptor(func(srv any, st grpc.ServerStream, info *grpc.StreamServerInfo,
			h grpc.StreamHandler) (err error) {
			defer s.ended(st.Context())
			defer s.recovered(info.FullMethod, &err)
			return s.grpcError(info.FullMethod, h(srv, decodedStream{st, s}))
		}),
	}
}

// describes returns what is held while the response to a request is made if it describes models:
// one of a kind is made at a time, because its memory is known only afterwards.
func (s *Server) describes(request any) *sync.Mutex {
	switch request.(type) {
	case *inference.RepositoryIndexRequest:
		return &s.listing
	case *inference.ModelStatisticsRequest, *inference.ModelMetadataRequest, *inference.ModelConfigRequest,
		*inference.SystemSharedMemoryStatusRequest:
		return &s.describing
	}
	return nil
}

// decodedStream decodes the messages of a stream, except those of inference requests, whose memory
// is reserved until their response is sent. It reserves memory for what it sends.
type decodedStream struct {
	grpc.ServerStream
	s *Server
}

// RecvMsg implements grpc.ServerStream.
func (d decodedStream) RecvMsg(v any) error {
	err := d.ServerStream.RecvMsg(v)
	arrived(d.Context())
	m, ok := v.(proto.Message)
	if ok && err != nil {
		d.s.drop(m)
	}
	if err != nil || !ok || runsLater(m) {
		return err
	}
	memory := &reservation{s: d.s}
	defer memory.release()
	return d.s.decode(m, memory)
}

// SendMsg implements grpc.ServerStream.
func (d decodedStream) SendMsg(v any) error {
	if err := hold(d.Context(), v); err != nil {
		return err
	}
	return d.ServerStream.SendMsg(v)
}

// runsLater reports whether a message of a stream is an inference request.
func runsLater(m proto.Message) bool {
	_, ok := m.(*inference.ModelInferRequest)
	return ok || m.ProtoReflect().Descriptor().ParentFile() == tei.File_tei_proto
}

// callKey is the key of a *callState in the context of a call.
type callKey struct{}

// callState is the state of a call of gRPC in progress.
type callState struct {
	timer  *time.Timer  // ends calls whose first message is late, or another that await expects
	end    func()       // stops the timer and the count of the call; called once
	stop   func() bool  // keeps the end of the context from calling end; false if it has called it
	conn   *meteredConn // nil: it is not metered
	stream uint32
}

// arrived records that a call has received a message.
func arrived(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*callState); ok {
		c.timer.Stop()
	}
}

// await ends a call unless its next message arrives by a time.
func await(ctx context.Context, due time.Time) {
	if c, ok := ctx.Value(callKey{}).(*callState); ok {
		c.timer.Reset(time.Until(due))
	}
}

// ended counts the end of a call.
func (s *Server) ended(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*callState); ok && c.stop() {
		c.end()
	}
}

// tapGRPC refuses calls without a token, and calls over MaxRequests, by their headers: before any
// message is read. A call must send its first message within ReadTimeout. Probes need no token, so
// their messages are limited to probeMessage bytes. Those without one do not count as calls: they
// would refuse the calls of others.
func (s *Server) tapGRPC(ctx context.Context, info *tap.Info) (context.Context, error) {
	probe := isProbe(info.FullMethodName)
	err := s.authorizeGRPC(info.Header)
	allowed := err == nil
	if !allowed && !probe {
		return nil, err
	}
	var conn *meteredConn
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(meteredAddr); ok {
			conn = a.conn
		}
	}
	if err := conn.fields(info.Header); err != nil {
		s.metrics.refused.Inc()
		return nil, err
	}
	if allowed {
		if n := s.calls.Add(1); n > int64(s.opts.MaxRequests) {
			s.calls.Add(-1)
			s.metrics.refused.Inc()
			return nil, errorf(Overloaded, "the server has %d calls in progress, the most that it accepts", n-1)
		}
	}
	slow, cancel := context.WithCancelCause(ctx)
	c := &callState{timer: time.AfterFunc(s.opts.ReadTimeout, func() { cancel(errSlow) })}
	c.end = func() {
		c.timer.Stop() // it refers to the call's headers
		if allowed {
			s.calls.Add(-1)
		}
	}
	// gRPC ends the context with the call, also of those that no interceptor sees.
	c.stop = context.AfterFunc(ctx, c.end)
	conn.begin(c, allowed, probe)
	return context.WithValue(slow, callKey{}, c), nil
}

// Register registers the inference service, those of Text Embeddings Inference, and the standard
// health service.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	g = registrar{g, s}
	inference.RegisterGRPCInferenceServiceServer(g, &service{s: s})
	s.registerTEI(g)
	healthpb.RegisterHealthServer(g, &health{s: s})
}

// registrar registers services whose messages give back what codec has reserved if gRPC does not
// hand them on: it waits for the end of the request after the message.
type registrar struct {
	grpc.ServiceRegistrar
	s *Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(d *grpc.ServiceDesc, impl any) {
	desc := *d
	desc.Methods = slices.Clone(d.Methods)
	for i, m := range d.Methods {
		desc.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error,
			interceptor grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, func(v any) error {
				err := decode(v)
				if m, ok := v.(proto.Message); ok && err != nil {
					r.s.drop(m)
				}
				return err
			}, interceptor)
		}
	}
	r.ServiceRegistrar.RegisterService(&desc, impl)
}

// recovered makes a panic of a request or a load its error. It is deferred.
func (s *Server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("a request or load panicked", "method", method, "panic", fmt.Sprint(p), "stack",
			string(debug.Stack()))
		*err = errorf(Internal, "internal error; the log has the details")
	}
}

func (s *Server) grpcError(method string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && !errors.As(err, new(*Error)) {
		return err // from gRPC itself
	}
	e := classify(err)
	if e.Code == Internal {
		s.log.Error("a request failed", "method", method, "error", err)
	}
	return e
}

// isProbe reports whether a method needs no token.
func isProbe(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasSuffix(method, "/ServerLive") ||
		strings.HasSuffix(method, "/ServerReady")
}

func (s *Server) authorizeGRPC(md metadata.MD) error {
	header := ""
	if h := md.Get("authorization"); len(h) == 1 {
		header = h[0]
	}
	return s.authorize(header)
}

// health is the standard health service
// (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
type health struct {
	healthpb.UnimplementedHealthServer
	s *Server
}

func (h *health) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if r.Service != "" && r.Service != inference.GRPCInferenceService_ServiceDesc.ServiceName {
		return nil, errorf(NotFound, "unknown service %.100q", r.Service)
	}
	if !h.s.Ready() {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// service is the inference service.
type service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	s *Server
}

func (g *service) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (g *service) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: g.s.Ready()}, nil
}

func (g *service) ModelReady(_ context.Context, r *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	v, err := g.s.acquire(r.Name, r.Version)
	if err != nil {
		if classify(err).Code == InvalidArgument {
			return nil, err
		}
		return &inference.ModelReadyResponse{}, nil
	}
	defer v.release()
	return &inference.ModelReadyResponse{Ready: g.s.ready(v) == nil}, nil
}

func (g *service) ServerMetadata(context.Context,
	*inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return g.s.serverMetadata(), nil
}

func (g *service) ModelMetadata(_ context.Context,
	r *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	v, err := g.s.acquire(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	defer v.release()
	return v.metadata(g.s.served(v.model)), nil
}

func (g *service) ModelConfig(_ context.Context,
	r *inference.ModelConfigRequest) (*inference.ModelConfigResponse, error) {
	v, err := g.s.acquire(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	defer v.release()
	return &inference.ModelConfigResponse{Config: v.config}, nil
}

func (g *service) ModelStatistics(_ context.Context,
	r *inference.ModelStatisticsRequest) (*inference.ModelStatisticsResponse, error) {
	return g.s.statistics(r.Name, r.Version)
}

func (g *service) RepositoryIndex(_ context.Context,
	r *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
	if r.RepositoryName != "" {
		return nil, errorf(Unsupported, "repository_name is %.100q: the server has one repository without a name",
			r.RepositoryName)
	}
	l, err := g.s.index(r.Ready)
	return &inference.RepositoryIndexResponse{Models: l}, err
}

func repositoryParameters(repository string,
	in map[string]*inference.ModelRepositoryParameter) (map[string]any, error) {
	if repository != "" {
		return nil, errorf(Unsupported, "repository_name is %.100q: the server has one repository without a name",
			repository)
	}
	out := map[string]any{}
	for k, p := range in {
		switch x := p.GetParameterChoice().(type) {
		case *inference.ModelRepositoryParameter_BoolParam:
			out[k] = x.BoolParam
		case *inference.ModelRepositoryParameter_Int64Param:
			out[k] = x.Int64Param
		case *inference.ModelRepositoryParameter_StringParam:
			out[k] = x.StringParam
		case *inference.ModelRepositoryParameter_BytesParam:
			out[k] = x.BytesParam
		default:
			return nil, errorf(InvalidArgument, "parameter %.64q is not supported", k)
		}
	}
	return out, nil
}

func (g *service) RepositoryModelLoad(ctx context.Context,
	r *inference.RepositoryModelLoadRequest) (*inference.RepositoryModelLoadResponse, error) {
	memory := &reservation{s: g.s}
	defer memory.release()
	params, err := repositoryParameters(r.RepositoryName, r.Parameters)
	if err == nil {
		err = g.s.control(ctx, r.ModelName, params, true, memory)
	}
	return &inference.RepositoryModelLoadResponse{}, err
}

func (g *service) RepositoryModelUnload(ctx context.Context,
	r *inference.RepositoryModelUnloadRequest) (*inference.RepositoryModelUnloadResponse, error) {
	memory := &reservation{s: g.s}
	defer memory.release()
	params, err := repositoryParameters(r.RepositoryName, r.Parameters)
	if err == nil {
		err = g.s.control(ctx, r.ModelName, params, false, memory)
	}
	return &inference.RepositoryModelUnloadResponse{}, err
}

func (g *service) ModelInfer(ctx context.Context,
	m *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	memory := &reservation{s: g.s}
	defer memory.release()
	resp, kept, err := g.infer(ctx, m, time.Now(), memory)
	releaseAll(kept)
	return resp, err
}

// infer runs a request. It reserves memory for what is allocated besides the message and the
// outputs, which the response refers to and the caller releases.
func (g *service) infer(ctx context.Context, m *inference.ModelInferRequest, received time.Time, memory *reservation) (
	resp *inference.ModelInferResponse, kept []*outputs, err error) {
	done, err := g.s.admit()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	r, err := decodeMessage(m, memory)
	if err != nil {
		err = invalid(err)
		g.s.undecoded(m.ModelName, m.ModelVersion, received, err)
		return nil, nil, err
	}
	r.received, r.memory = received, memory
	if md, ok := metadata.FromIncomingContext(ctx); ok && g.s.tracer != nil { // md is a copy
		ctx = g.s.callerTrace(ctx, carrier(md))
	}
	ctx, cancel := g.s.deadline(ctx)
	defer cancel()
	out, err := g.s.infer(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range out.outputs {
		if o.into == nil && o.value.DType() == tensor.TypeString {
			err = memory.grow(rawSize(o.value))
		}
		if err != nil {
			out.release()
			return nil, nil, err
		}
	}
	return encodeMessage(out), out.kept, nil
}

// carrier reads trace contexts from the metadata of a call.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if v := metadata.MD(c).Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}
func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }
func (c carrier) Keys() []string {
	var l []string
	for k := range c {
		l = append(l, k)
	}
	return l
}

// ModelStreamInfer runs the requests of a stream at the same time, except those of one sequence,
// and answers them in order.
// A request that fails is answered by a message with its error and does not end the stream.
func (g *service) ModelStreamInfer(st grpc.BidiStreamingServer[inference.ModelInferRequest,
	inference.ModelStreamInferResponse]) error {
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	type answer struct {
		*inference.ModelStreamInferResponse
		memory *reservation
		kept   []*outputs
	}
	answers := make(chan chan answer, maxStreamed)
	sent := make(chan error, 1)
	go func() {
		var failed error
		for a := range answers {
			m := <-a
			if failed == nil {
				if failed = st.Send(m.ModelStreamInferResponse); failed != nil {
					cancel() // requests of a client that has gone need not run
				}
			}
			m.memory.release()
			releaseAll(m.kept)
		}
		sent <- failed
	}()
	type sequence struct {
		model string
		id    any
	}
	var running sync.Map // sequence to the channel that the last request of it closes
	var err error
	for {
		var m *inference.ModelInferRequest
		if m, err = st.Recv(); err != nil {
			break
		}
		a, received := make(chan answer, 1), time.Now()
		memory := &reservation{s: g.s}
		failed := g.s.decode(m, memory)
		answers <- a // waits if too many requests are in progress
		if failed != nil {
			a <- answer{streamError(m, failed), memory, nil}
			continue
		}
		if id := sequenceOf(m); id != nil {
			key, end := sequence{m.ModelName, id}, make(chan struct{})
			before, _ := running.Swap(key, end)
			go func() {
				if before != nil {
					<-before.(chan struct{})
				}
				resp, kept := g.streamed(ctx, m, received, memory)
				a <- answer{resp, memory, kept}
				running.CompareAndDelete(key, end)
				close(end)
			}()
			continue
		}
		go func() {
			resp, kept := g.streamed(ctx, m, received, memory)
			a <- answer{resp, memory, kept}
		}()
	}
	close(answers)
	if e := <-sent; e != nil {
		return e
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// sequenceOf returns the correlation ID of a request, or nil if it has no valid one.
func sequenceOf(m *inference.ModelInferRequest) any {
	params, err := messageParameters(map[string]*inference.InferParameter{"sequence_id": m.Parameters["sequence_id"]})
	if err != nil || len(m.ModelName) > maxName {
		return nil
	}
	x, err := memberOf(params)
	if err != nil {
		return nil
	}
	return x.id
}

func streamError(m *inference.ModelInferRequest, err error) *inference.ModelStreamInferResponse {
	return &inference.ModelStreamInferResponse{ErrorMessage: cut(err.Error()),
		InferResponse: &inference.ModelInferResponse{Id: m.Id}}
}

// streamed runs a request of a stream. What it has reserved at the end is the memory of the answer,
// besides the outputs that the answer refers to.
func (g *service) streamed(ctx context.Context, m *inference.ModelInferRequest, received time.Time,
	memory *reservation) (*inference.ModelStreamInferResponse, []*outputs) {
	resp, kept, err := func() (resp *inference.ModelInferResponse, kept []*outputs, err error) {
		defer g.s.recovered("ModelStreamInfer", &err)
		return g.infer(ctx, m, received, memory)
	}()
	if err == nil {
		err = memory.become(int64(proto.Size(resp)))
	}
	if err != nil {
		memory.release()
		releaseAll(kept)
		if classify(err).Code == Internal {
			g.s.log.Error("a request failed", "method", "ModelStreamInfer", "error", err)
		}
		return streamError(m, err), nil
	}
	if m.Parameters["triton_enable_empty_final_response"].GetBoolParam() {
		resp.Parameters = map[string]*inference.InferParameter{
			"triton_final_response": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}}
	}
	return &inference.ModelStreamInferResponse{InferResponse: resp}, kept
}
