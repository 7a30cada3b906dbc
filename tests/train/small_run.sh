# small_run.sh - for test scripts: a network with what can go wrong between ranks, and a run of it on synthetic pictures.
#   small_run FOLDER   writes net.ini and run.ini there. An epoch has four whole windows of 12 micro-batches and one of 3, which all fall
#                      to rank 0 and the last of which is short.
small_run() {
cat >"$1/net.ini" <<'EOF'
[network]
input = 3x8x8
[c1]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
bias = false
[n1]
layer = batchnorm2d
[r1]
layer = relu
[c2]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
bias = false
[n2]
layer = batchnorm2d
[a2]
layer = add
inputs = n2, r1
[r2]
layer = relu
[d2]
layer = dropout
p = 0.2
[p]
layer = globalavgpool
[f]
layer = flatten
[l]
layer = linear
out_features = 10
EOF
cat >"$1/run.ini" <<'EOF'
[data]
dataset = synthetic
shape = 3x8x8
train_samples = 203
test_samples = 37
pad = 1
flip = true
[model]
file = net.ini
[train]
epochs = 2
global_batch = 48
micro_batch = 4
label_smoothing = 0.1
clip_norm = 1.0
[optimizer]
lr = 0.1
weight_decay = 0.001
EOF
}
