package env

func modelGroups() []group {
	return []group{
		{
			title:   "Hugging Face and tokenizers",
			about:   "Downloads and caches of models and data sets.",
			readers: []Reader{HuggingFace},
			vars: []Var{
				{Name: "HF_TOKEN", Kind: String, Meaning: "access token of the hub", Confused: []string{"HUGGINGFACE_TOKEN", "HF_API_TOKEN"}},
				{Name: "HUGGING_FACE_HUB_TOKEN", Kind: String, Meaning: "older name of HF_TOKEN"},
				{Name: "HF_HOME", Kind: Path, Default: "~/.cache/huggingface", Meaning: "where downloads are kept"},
				{Name: "HF_HUB_CACHE", Kind: Path, Meaning: "where downloaded models are kept"},
				{Name: "HF_DATASETS_CACHE", Kind: Path, Meaning: "where downloaded data sets are kept"},
				{Name: "HF_ENDPOINT", Kind: String, Meaning: "address of the hub"},
				{Name: "HF_HUB_OFFLINE", Kind: Bool, Default: "0", Meaning: "never go to the network"},
				{Name: "HF_DATASETS_OFFLINE", Kind: Bool, Default: "0", Meaning: "never go to the network for data sets"},
				{Name: "HF_HUB_DISABLE_XET", Kind: Bool, Default: "0", Meaning: "plain downloads"},
				{Name: "HF_HUB_ENABLE_HF_TRANSFER", Kind: Bool, Default: "0", Meaning: "faster downloads"},
				{Name: "HF_HUB_DOWNLOAD_TIMEOUT", Kind: Int, Default: "10", Meaning: "seconds without data"},
				{Name: "TRANSFORMERS_OFFLINE", Kind: Bool, Default: "0", Meaning: "never go to the network for models"},
				{Name: "TRANSFORMERS_CACHE", Kind: Path, Meaning: "older name of HF_HUB_CACHE"},
				{Name: "TRANSFORMERS_VERBOSITY", Kind: String, Meaning: "log level"},
				{Name: "TOKENIZERS_PARALLELISM", Kind: Bool, Meaning: "several threads for tokenizing"},
				{Name: "SAFETENSORS_FAST_GPU", Kind: Flag01, Meaning: "load weights straight to the GPU"},
				{Name: "TQDM_MININTERVAL", Kind: Number, Default: "0.1", Meaning: "seconds between progress lines"},
				{Name: "TQDM_DISABLE", Kind: Bool, Meaning: "no progress lines"},
				{Name: "OPENAI_API_KEY", Kind: String, Meaning: "key that a client sends to the server", Readers: []Reader{Bench, EvalScripts, AIPerf}},
				{Name: "AWS_ACCESS_KEY_ID", Kind: String, Meaning: "account for object stores"},
				{Name: "AWS_SECRET_ACCESS_KEY", Kind: String, Meaning: "key for object stores"},
				{Name: "AWS_SESSION_TOKEN", Kind: String, Meaning: "short-lived key for object stores"},
				{Name: "AWS_ENDPOINT_URL", Kind: String, Meaning: "address of an object store"},
			},
		},
	}
}
