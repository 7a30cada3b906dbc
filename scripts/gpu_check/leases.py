"""What to run when a card is at hand for a quarter of an hour: three lists of items, each in the order in which it teaches most."""

# Minutes of the call that a lease is made for, and its items.
LEASES = {
    "1": (8, "devices/found launches/empty convolutions/recipe layers/cifar10-94-24 layers/cifar10-94-28 layers/cifar10-94-32 "
             "layers/resnet9-512-bf16 layers/airbench94-1024-bf16 layers/mobilenet-128-bf16 layers/resnet20-128-bf16 layers/lenet-128-bf16 "
             "layers/lenet-128-fp32 starts/cifar10-94 counters/cifar10-94 norms/all profile/lenet"),
    "2": (5, "peers/all"),
    "3": (8, "operators/bf16 operators/fp16 operators/tf32 operators/measured-plans graphs/lenet-fp32 graphs/resnet9-bf16 "
             "sanitizer/racecheck-lenet accuracy/cifar10-94 ranks/lenet operators/fp32 accuracy/bf16 training/whole"),
}


def items_of(lease, table):
    """The lease's items, in its order."""
    by_name = {item.name: item for item in table}
    return [by_name[name] for name in LEASES[lease][1].split()]


def minutes_of(lease):
    return LEASES[lease][0]
