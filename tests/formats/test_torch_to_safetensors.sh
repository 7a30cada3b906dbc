# scripts/torch_to_safetensors.py: PyTorch's checkpoints as files that `train eval` takes as model.init. PYTHON (default: python3) has
# PyTorch, or the test is skipped.
python=${PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || {
    echo "skipped: $python has no PyTorch"
    exit 77
}
root=$PWD
. tests/cli/common.sh "$1" || exit 1
convert() { "$python" "$root/scripts/torch_to_safetensors.py" "$@"; }

"$python" - <<'END_PY'
import torch
torch.manual_seed(1)
net = torch.nn.Sequential()
for name, module in (("conv1", torch.nn.Conv2d(1, 8, 3, padding=1)), ("norm1", torch.nn.BatchNorm2d(8)), ("fc", torch.nn.Linear(288, 4))):
    net.add_module(name, module)
state = net.state_dict()
torch.save(state, "bare.pt")
torch.save({"epoch": 3, "best_prec1": torch.tensor(91.7), "state_dict": {"module." + k: v for k, v in state.items()}}, "nested.th")
torch.save({"model": {"_orig_mod." + k: v for k, v in state.items()}, "optimizer": {"lr": 0.1}}, "compiled.pth")
turned = {k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in state.items()} # another order in memory
torch.save(turned, "turned.pt")
torch.save({k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in state.items()}, "bf16.pt")
torch.save(net, "whole.pt")
torch.save({"epoch": 3}, "nothing.pt")
END_PY
for name in bare.pt nested.th compiled.pth turned.pt bf16.pt; do
    convert $name $name.safetensors >$name.txt
    check "$name: exit" $? 0
    "$train" eval tiny.ini --quiet --set model.init=$name.safetensors >$name.result
    check "$name: taken" $? 0
done
for name in nested.th compiled.pth turned.pt; do
    check "$name: the same file" "$(cmp $name.safetensors bare.pt.safetensors && echo same)" same
done
check "tensors are listed" "$(grep -c '^fc.weight  *F32  *4x288$' bare.pt.txt)" 1
check "bf16 stays bf16" "$(grep -c ' BF16 ' bf16.pt.txt)" 8
check "a file that is there stays" "$(convert bare.pt bf16.pt.safetensors 2>&1)" "bf16.pt.safetensors: is there already: name another file"
check "a whole model is not executed" "$(convert whole.pt whole.safetensors 2>&1 | grep -c 'save model.state_dict() where the model was made$')" 1
check "no state_dict" "$(convert nothing.pt nothing.safetensors 2>&1 | grep -c 'no state_dict, neither itself nor under .*; it has: epoch')" 1
check "no such file" "$(convert none.pt none.safetensors 2>&1 | wc -l)" 1
check "nothing is left of refusals" "$(ls whole.safetensors nothing.safetensors none.safetensors ./*.part 2>/dev/null)" ""
finish
