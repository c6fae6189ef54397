#!/bin/sh
# Builds the programs that ours are compared with, and prints the folder that holds them.
exec "${0%/*}/../build.sh" peers
