package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// Task is what the model of a folder is for, named as the Hugging Face Hub names it if it does.
type Task string

// The tasks of model folders.
const (
	FeatureExtraction      Task = "feature-extraction"       // [Embedder]
	SparseEncoding         Task = "sparse-encoding"          // [SparseEmbedder]
	MultiVectorEncoding    Task = "multi-vector-encoding"    // [MultiVectorEmbedder]
	TextRanking            Task = "text-ranking"             // [Reranker]
	TextClassification     Task = "text-classification"      // [TextClassifier]
	TokenClassification    Task = "token-classification"     // [TokenClassifier]
	QuestionAnswering      Task = "question-answering"       // [QuestionAnswerer]
	ZeroShotClassification Task = "zero-shot-classification" // [ZeroShotClassifier]
	FillMask               Task = "fill-mask"                // [MaskFiller]
	ImageToText            Task = "image-to-text"            // [TextRecognizer]
	ImageClassification    Task = "image-classification"     // [ImageClassifier]
	ObjectDetection        Task = "object-detection"         // [ObjectDetector]
	// SpeechRecognition is the task of a [SpeechRecognizer].
	SpeechRecognition Task = "automatic-speech-recognition"
	// VoiceDetection is the task of a [VoiceDetector].
	VoiceDetection Task = "voice-activity-detection"
	// KeywordSpotting is the task of a [WakeWord].
	KeywordSpotting Task = "keyword-spotting"
)

// Tasks returns all tasks.
func Tasks() []Task {
	return []Task{FeatureExtraction, SparseEncoding, MultiVectorEncoding, TextRanking, TextClassification,
		TokenClassification, QuestionAnswering, ZeroShotClassification, FillMask, ImageToText,
		ImageClassification, ObjectDetection, SpeechRecognition, VoiceDetection, KeywordSpotting}
}

// headTasks are the tasks of architectures by the ends of their names, the first that fits. For one
// without a task, instead says what to do.
var headTasks = []struct {
	suffix  string
	task    Task
	instead string
}{
	{"ForTokenClassification", TokenClassification, ""},
	{"ForQuestionAnswering", QuestionAnswering, ""},
	{"ForMaskedLM", FillMask, ""},
	{"WithLMHeadModel", FillMask, ""},
	{"ForCTC", SpeechRecognition, ""},
	{"ForImageClassification", ImageClassification, ""},
	{"ForImageClassificationWithTeacher", ImageClassification, ""},
	{"ForObjectDetection", ObjectDetection, ""},
	{"ForSemanticSegmentation", "", "has no task; use pipeline.OpenSegmenter"},
	{"ForDepthEstimation", "", "has no task; use pipeline.OpenDepthEstimator"},
	{"CLIPModel", "", "has no task; use pipeline.OpenImageEmbedder"},
	{"LMHeadModel", "", "generates text, which is not supported"},
	{"ForCausalLM", "", "generates text, which is not supported"},
	{"ForConditionalGeneration", "", "generates text, which is not supported"},
	{"Model", FeatureExtraction, ""},
}

// TaskOf returns the task of a model folder. It is that of modules.json, of the architecture that
// config.json names, or, without an architecture, of the files for PP-OCR, speech, openWakeWord
// or Silero VAD. A model that decides whether a text entails another is for TextClassification,
// unless the caller asks for ZeroShotClassification.
func TaskOf(dir string, opts *Options) (Task, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return "", err
	}
	defer f.Close()
	t, err := f.task()
	return t, f.wrap(err)
}

func (f *folder) task() (Task, error) {
	list, err := f.modules()
	if err != nil {
		return "", err
	}
	config, err := f.json("config.json")
	if err != nil {
		return "", err
	}
	var architectures []string
	config.get("architectures", &architectures)
	labels := config.labels()
	if config.err != nil {
		return "", config.err
	}
	name := ""
	if len(architectures) > 0 {
		name = architectures[0]
	}
	isClassifier := strings.HasSuffix(name, "ForSequenceClassification")
	readsText := f.has("tokenizer.json") || f.has("tokenizer_config.json")
	if f.has("preprocessor_config.json") && !readsText && (isClassifier || strings.HasSuffix(name, "Model")) {
		return "", fmt.Errorf("config.json: architecture %q without a tokenizer belongs to none of the tasks %q; "+
			"pipeline.OpenImageEmbedder embeds images", name, Tasks())
	}
	for i := range list {
		switch list[i].class() {
		case "SpladePooling":
			return SparseEncoding, nil
		case "MultiVectorMask":
			return MultiVectorEncoding, nil
		}
	}
	switch {
	case len(list) > 1 || len(list) == 1 && !isClassifier:
		return FeatureExtraction, nil
	case isClassifier && (len(labels) == 1 || len(list) == 1):
		return TextRanking, nil
	case isClassifier:
		return TextClassification, nil
	}
	for _, a := range headTasks {
		if strings.HasSuffix(name, a.suffix) && a.task != "" {
			return a.task, nil
		} else if strings.HasSuffix(name, a.suffix) {
			return "", fmt.Errorf("config.json: architecture %q %s", name, a.instead)
		}
	}
	if name != "" {
		return "", fmt.Errorf("config.json: architecture %q belongs to none of the tasks %q", name, Tasks())
	}
	if kind, err := f.speechKind(); err != nil || kind != speechUnknown {
		return SpeechRecognition, err
	}
	if f.has(wakeMel) && f.has(wakeEmbedding) {
		return KeywordSpotting, nil
	}
	if found, err := f.models("silero_vad"); err != nil || len(found) > 0 {
		return VoiceDetection, err
	}
	if config.fields == nil {
		parts := []string{"det", "rec"}
		if !slices.ContainsFunc(parts, func(part string) bool {
			found, err := f.only(part, ".onnx")
			return found == "" && err == nil
		}) {
			return ImageToText, nil
		}
	}
	return "", fmt.Errorf("neither modules.json nor architectures in config.json says its task; choose one of %q",
		Tasks())
}
