// Package pipeline answers tasks with the model folders of Hugging Face: text, images and
// sound in, vectors, scores, labels or text out, in pure Go.
//
// A model folder holds ONNX files, the tokenizer and the settings of a model. Each task has a type:
//
//	emb, err := pipeline.OpenEmbedder(ctx, "all-MiniLM-L6-v2", nil)
//	vecs, err := emb.Embed(ctx, []string{"a cat", "ein Hund"}) // normalized as modules.json says
//
// Results are those of the Python packages sentence-transformers and transformers, for which the
// folders are made. A setting that would change a result and is not supported is an error when
// the folder is opened.
//
// Text in images, speech and wake words are found with the models of PP-OCR, Silero VAD and
// openWakeWord, as their Python packages do. Images and samples come from package preprocess.
//
// Pipelines are safe for use by several goroutines. They sort texts by length, run them in batches
// with little padding, and run several batches at a time. They download nothing.
//
// Folders, texts and models may come from anyone: sizes and nesting are limited, files outside
// the folder are not read, and a context ends long work.
package pipeline
