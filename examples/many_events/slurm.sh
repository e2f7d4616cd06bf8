#!/bin/bash
# sbatch slurm.sh
# The number of shares stands here twice: jobs that failed can then be repeated by their numbers
# alone, sbatch --array=3,17 slurm.sh.
#SBATCH --job-name=events
#SBATCH --array=0-99
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=02:00:00
#SBATCH --requeue

exec inferostatic simulate simulator.py --events 1000000 --store events --seed 1 \
    --parts "$SLURM_ARRAY_TASK_ID/100"
