#!/bin/sh
# Run everything for results/paper and results/study, the most important first. Start it again to continue where it stopped.
#   PATH=.venv/bin:$PATH sh results/run.sh MNIST_FOLDER
set -e
cd "$(dirname "$0")/.."
export CAUSALBALD_DATA="${1:?give the folder of the four MNIST files}"

paper() { causalbald run --out results/paper "$@"; }
paper --preset paper-synthetic --model due --seeds 0-19
paper --preset paper-ihdp --model due --dataset ihdp --track paper --seeds 0-4
paper --preset paper-ihdp --model due --dataset ihdp --track paper --seeds 5-39 --steps 20
paper --preset paper-ihdp --model due --dataset ihdp --track paid --seeds 0-39 --steps 20
paper --preset paper-ihdp --dataset ihdp-cov --seeds 0-19
paper --preset paper-synthetic --model ensemble --seeds 0-4
paper --preset paper-ihdp --model ensemble --dataset ihdp --track paper --steps 20 --seeds 0-4
paper --preset paper-cmnist --model due --seeds 0-1 --steps 10 --acquisition random --acquisition mu-bald \
  --acquisition rho-bald --acquisition mu-pi-bald --acquisition mu-rho-bald
causalbald pack results/paper

study() { python benchmarks/label_efficiency.py run --part "$1" --seeds "$2"; }
study default 0-19
study paper 0-19
study auto 0-19
study due 0-19
study ensemble 0-9
study gp 0-39
causalbald pack results/study
