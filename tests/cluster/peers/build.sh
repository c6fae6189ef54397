#!/bin/sh
# Builds the programs that benchmarks compare with, and prints their directory.
exec "${0%/*}/../build.sh" peers
