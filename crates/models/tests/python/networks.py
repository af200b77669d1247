"""The networks of goldens.py: for each case the model, what goes in, how it is run, and how its weights are written."""

import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
)

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Narrow(ResNet):
    """torchvision's ResNet with another number of channels than 64 in the first stage; its blocks and its forward pass."""

    def __init__(self, block, layers, width=64, in_channels=3, small_images=False, **options):
        self.__dict__["width"] = width
        super().__init__(block, layers, **options)
        out = 8 * width * block.expansion
        self.fc = torch.nn.Linear(out, self.fc.out_features)
        if small_images:
            self.conv1 = torch.nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
            self.maxpool = torch.nn.Identity()
        elif in_channels != 3:
            self.conv1 = torch.nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)

    # The constructor says 64 before it makes the first layers.
    @property
    def inplanes(self):
        return self.__dict__["channels"]

    @inplanes.setter
    def inplanes(self, channels):
        first = "channels" not in self.__dict__
        self.__dict__["channels"] = self.width if first else channels

    def _make_layer(self, block, planes, *args, **options):
        return super()._make_layer(block, planes * self.width // 64, *args, **options)


def build_resnet(case):
    options = case["options"]
    block = {"basic": BasicBlock, "bottleneck": Bottleneck}[case["block"]]
    model = Narrow(block, case["layers"], **options)
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(m.weight, 0.5, 1.5)
            torch.nn.init.normal_(m.bias, 0, 0.1)
            torch.nn.init.normal_(m.running_mean, 0, 0.1)
            torch.nn.init.uniform_(m.running_var, 0.5, 1.5)
            if options.get("width", 64) < 64:
                # So small that eps counts.
                m.running_var[0] = 1e-3
            m.num_batches_tracked.fill_(7 if case.get("counts", True) else 0)
    to_dtype(model, case)
    x = torch.randn(case["input"])
    labels = torch.randint(options.get("num_classes", 1000), (case["input"][0],))

    def run(model, inputs):
        out = model(inputs["x"])
        return {"out": out, "loss": cross_entropy(out, inputs["labels"])}

    def save(folder):
        dtype = DTYPES[case["dtype"]]
        prefix = case.get("prefix", "")
        state = {prefix + k: v.to(dtype) if v.is_floating_point() else v for k, v in model.state_dict().items()}
        if not case.get("counts", True):
            state = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
        save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors")

    return model, {"x": x, "labels": labels}, run, save


def to_dtype(model, case):
    """Rounds all parameters and buffers to what the file can hold, and computes on in f32."""
    model.to(DTYPES[case["dtype"]]).to(torch.float32)


def randomise(model, std):
    """No parameter is as it was made, so that each of them counts."""
    for name, p in model.named_parameters():
        if "LayerNorm.weight" in name or ".ln_" in f".{name}" and name.endswith("weight"):
            torch.nn.init.uniform_(p, 0.5, 1.5)
        else:
            torch.nn.init.normal_(p, 0, std)


def write_pretrained(model, folder, case):
    """As `save_pretrained` writes it, in the case's dtype and maybe in shards, or by names of old files."""
    model.to(DTYPES[case["dtype"]])
    if "names" in case:
        state = {k: v.clone() for k, v in model.state_dict().items() if k != "lm_head.weight"}
        save_file(OLD_NAMES[case["names"]](state, model.config), folder / "model.safetensors")
        model.config.save_pretrained(folder)
    else:
        model.save_pretrained(folder, max_shard_size=case.get("max_shard_size", "50GB"))
    model.to(torch.float32)


def gpt2_of_openai(state, config):
    """The names of the file that everybody has, with its masks."""
    state = {k.removeprefix("transformer."): v for k, v in state.items()}
    n = config.n_positions
    for k in range(config.n_layer):
        state[f"h.{k}.attn.bias"] = torch.ones(n, n).tril().view(1, 1, n, n)
    return state


def bert_of_google(state, config):
    state = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in state.items()}
    state["bert.embeddings.position_ids"] = torch.arange(config.max_position_embeddings)[None]
    return state


OLD_NAMES = {"gpt2": gpt2_of_openai, "bert": bert_of_google}


def tokens(case, config):
    """Ids, and what the case asks for beside them."""
    batch, time = case["input"]
    inputs = {"ids": torch.randint(config.vocab_size, (batch, time))}
    if "padding" in case:
        mask = torch.ones(batch, time, dtype=torch.long)
        for k in range(batch):
            # Every sequence but the first is shorter.
            if case["padding"] == "right":
                mask[k, time - 2 * k :] = 0 if k else 1
            else:
                mask[k, : 2 * k] = 0
        inputs["attention_mask"] = mask
    if case.get("pairs"):
        inputs["attention_mask"] = (torch.rand(batch, time, time) < 0.7).long() | torch.eye(time, dtype=torch.long)
    if case.get("types"):
        inputs["token_type_ids"] = torch.randint(min(case["types"], config.vocab_size), (batch, time))
    if case.get("positions"):
        inputs["position_ids"] = torch.stack([torch.randperm(time) for _ in range(batch)])
    return inputs


def token_labels(inputs):
    """Ids, of which a third takes no part, nor does what is padded."""
    labels = inputs["ids"].clone()
    labels[torch.rand(labels.shape) < 0.33] = -100
    mask = inputs.get("attention_mask")
    if mask is not None and mask.dim() == 2:
        labels[mask == 0] = -100
    return labels


def shown(out, inputs):
    """What a padded token says is of no interest: libraries differ where it sees nothing at all."""
    mask = inputs.get("attention_mask")
    if mask is None or mask.dim() != 2 or out.dim() != 3:
        return out
    return out * mask[:, :, None]


def called(model, inputs, **more):
    given = {k: inputs[k] for k in ("attention_mask", "token_type_ids", "position_ids") if k in inputs}
    if "attention_mask" in given and given["attention_mask"].dim() == 3:
        # One for each query is taken for all heads, and as bools, where it has an axis of heads.
        given["attention_mask"] = given["attention_mask"][:, None].bool()
    return model(inputs["ids"], **given, **more)


def features_loss(out, inputs):
    return (out * inputs["weights"]).sum() / out.shape[0]


def build_gpt2(case):
    config = GPT2Config(**case["config"], resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None)
    whole = GPT2LMHeadModel(config)
    randomise(whole, case["std"])
    to_dtype(whole, case)
    inputs = tokens(case, config)
    if case["model"] == "gpt2":
        inputs["weights"] = torch.randn(*inputs["ids"].shape, config.n_embd)
        inputs["weights"] = shown(inputs["weights"], inputs)

        def run(model, inputs):
            out = called(model, inputs).last_hidden_state
            return {"out": shown(out, inputs), "loss": features_loss(out, inputs)}

        # The body alone, from the file of the whole.
        return whole.transformer, inputs, run, lambda folder: write_pretrained(whole, folder, case)
    inputs["labels"] = token_labels(inputs)

    def run(model, inputs):
        y = called(model, inputs, labels=inputs["labels"])
        return {"out": shown(y.logits, inputs), "loss": y.loss}

    return whole, inputs, run, lambda folder: write_pretrained(whole, folder, case)


def build_bert(case):
    config = BertConfig(**case["config"], hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    kind = {"bert": BertModel, "bert-masked-lm": BertForMaskedLM, "bert-classifier": BertForSequenceClassification}[case["model"]]
    model = kind(config)
    randomise(model, case["std"])
    to_dtype(model, case)
    inputs = tokens(case, config)
    if case["model"] == "bert":
        inputs["weights"] = torch.randn(*inputs["ids"].shape, config.hidden_size)

        def run(model, inputs):
            y = called(model, inputs)
            loss = features_loss(y.last_hidden_state, inputs) + features_loss(y.pooler_output, {"weights": inputs["weights"][:, 0]})
            return {"out": y.last_hidden_state, "pooled": y.pooler_output, "loss": loss}

        return model, inputs, run, lambda folder: write_pretrained(model, folder, case)
    if case["model"] == "bert-masked-lm":
        inputs["labels"] = token_labels(inputs)
    else:
        batch, classes = inputs["ids"].shape[0], config.num_labels
        inputs["labels"] = {
            "classes": lambda: torch.randint(classes, (batch,)),
            "numbers": lambda: torch.randn(batch),
            "flags": lambda: torch.randint(2, (batch, classes)).float(),
        }[case["labels"]]()

    def run(model, inputs):
        y = called(model, inputs, labels=inputs["labels"])
        return {"out": y.logits, "loss": y.loss}

    return model, inputs, run, lambda folder: write_pretrained(model, folder, case)


def build(case):
    return {"resnet": build_resnet, "gpt2": build_gpt2, "bert": build_bert}[case["model"].split("-")[0]](case)


def of_transformer(model, size, seed, dtype, config, **own):
    return {"model": model, "input": size, "seed": seed, "dtype": dtype, "std": 0.2, "config": config, **own}


def small_gpt2(heads, width, **more):
    return {"vocab_size": 61, "n_positions": 20, "n_embd": width, "n_layer": 2, "n_head": heads, **more}


def small_bert(heads, width, **more):
    sizes = {"vocab_size": 53, "max_position_embeddings": 16, "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": heads}
    return {**sizes, "intermediate_size": 40, **more}


def of_resnet(block, layers, size, seed, dtype="f32", **options):
    own = {k: options.pop(k) for k in ("prefix", "counts", "evaluating") if k in options}
    return {"model": "resnet", "block": block, "layers": layers, "input": size, "seed": seed, "dtype": dtype, **own, "options": options}


CASES = {
    "small": {
        "resnet18": of_resnet("basic", [2, 2, 2, 2], [3, 3, 40, 48], 1, "f16", width=2, num_classes=7),
        "resnet-wide": of_resnet("bottleneck", [1, 1, 1, 1], [3, 3, 48, 40], 2, "bf16", width=2, num_classes=5, width_per_group=128, counts=False),
        "resnet-groups": of_resnet(
            "bottleneck", [1, 1, 1, 1], [3, 3, 48, 48], 3, "f16", width=2, num_classes=5, groups=2, width_per_group=32, prefix="module."
        ),
        "resnet-dilated": of_resnet(
            "bottleneck", [1, 1, 2, 2], [2, 1, 37, 41], 4, "bf16", width=2, in_channels=1, num_classes=3, replace_stride_with_dilation=[False, True, True]
        ),
        "resnet-small-images": of_resnet("basic", [1, 1, 1, 2], [4, 3, 16, 16], 5, "f16", width=2, num_classes=10, small_images=True),
        "gpt2-lm": of_transformer("gpt2-lm", [3, 11], 21, "f32", small_gpt2(3, 24)),
        "gpt2-lm-untied": of_transformer(
            "gpt2-lm",
            [3, 9],
            22,
            "f16",
            small_gpt2(
                5, 20, n_inner=37, activation_function="gelu", layer_norm_epsilon=1e-2, scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False
            ),
            padding="right",
            types=61,
            positions=True,
            max_shard_size="16KB",
        ),
        "gpt2-lm-old-names": of_transformer("gpt2-lm", [3, 12], 23, "bf16", small_gpt2(1, 20, activation_function="relu"), padding="left", names="gpt2"),
        "gpt2": of_transformer("gpt2", [2, 20], 24, "f16", small_gpt2(4, 24, scale_attn_weights=False)),
        "bert": of_transformer("bert", [3, 10], 31, "f32", small_bert(3, 24), padding="right", types=2),
        "bert-masked-lm": of_transformer("bert-masked-lm", [2, 12], 32, "f16", small_bert(2, 20, hidden_act="gelu_new", layer_norm_eps=1e-2), pairs=True),
        "bert-masked-lm-untied": of_transformer(
            "bert-masked-lm", [2, 7], 33, "bf16", small_bert(5, 20, tie_word_embeddings=False, type_vocab_size=4), types=4, max_shard_size="16KB"
        ),
        "bert-classifier": of_transformer("bert-classifier", [4, 8], 34, "f16", small_bert(1, 20, num_labels=3), padding="left", labels="classes", names="bert"),
        "bert-regression": of_transformer(
            "bert-classifier", [4, 16], 35, "f16", small_bert(4, 20, num_labels=1, num_hidden_layers=1, hidden_act="relu"), labels="numbers", positions=True
        ),
        "bert-flags": of_transformer("bert-classifier", [3, 5], 36, "bf16", small_bert(4, 20, num_labels=4, num_hidden_layers=1, pad_token_id=None), labels="flags"),
    },
    "full": {
        "resnet18": of_resnet("basic", [2, 2, 2, 2], [4, 3, 224, 224], 11),
        "resnet50": of_resnet("bottleneck", [3, 4, 6, 3], [2, 3, 224, 224], 12),
        # Of an image alone and without statistics of the batch there are fewer numbers near a corner of ReLU: with this seed none,
        # so that f32 alone tells whether gradients are right.
        "resnet18-evaluating": of_resnet("basic", [2, 2, 2, 2], [1, 3, 224, 224], 61, evaluating=True),
        # The shape of the smallest GPT-2, and of BERT-base, as the configurations' defaults are.
        "gpt2": {**of_transformer("gpt2-lm", [2, 64], 41, "f32", {}), "std": 0.02},
        "bert": {**of_transformer("bert-masked-lm", [2, 64], 42, "f32", {}, padding="right", types=2), "std": 0.02},
    },
}
