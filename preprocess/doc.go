// Package preprocess makes inputs of models from images and sound, as the programs do that models
// were trained with: Pillow and torchvision ([Image.Resize]), OpenCV ([Image.ResizeCV]), librosa
// ([STFT], [MelFilters]), Whisper ([LogMel]), Kaldi ([KaldiFbank]) and NeMo ([NeMoFbank]).
//
// Models are sensitive to how an image was made smaller. Resize gives Pillow's bytes, and ResizeCV
// differs from OpenCV's by at most one step of 255. Resample changes the rate of sound as
// torchaudio does. ReadSound reads WAV, FLAC and MP3 files.
package preprocess
