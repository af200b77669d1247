"""PyTorch's documented names for `cargo xtask parity`, a line each: namespace, name. What has no text of its own is not for users."""

import torch, torch.distributions, torch.fft, torch.func, torch.linalg, torch.nn, torch.nn.functional, torch.optim, torch.special, torch.utils.data
from torch.optim import lr_scheduler
NAMESPACES = {
    "torch": torch, "Tensor": torch.Tensor, "nn": torch.nn, "nn.functional": torch.nn.functional, "optim": torch.optim,
    "lr_scheduler": lr_scheduler, "linalg": torch.linalg, "fft": torch.fft, "special": torch.special,
    "distributions": torch.distributions, "func": torch.func, "utils.data": torch.utils.data,
}
for title, space in NAMESPACES.items():
    for name in sorted(set(dir(space))):
        value = getattr(space, name, None)
        if name.startswith("_") or not callable(value) or not str(getattr(value, "__doc__", None) or "").strip():
            continue
        module = getattr(value, "__module__", None) or ""
        # What a module took from elsewhere is no name of its own.
        if isinstance(value, type) and (space is torch or not module.startswith("torch")):
            continue
        if module and not module.startswith("torch"):
            continue
        print(title, name)
