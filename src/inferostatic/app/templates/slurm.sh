#!/bin/bash
# jobs=$(sbatch --parsable --array=0-9 slurm.sh)            # makes the events, in ten shares
# sbatch --dependency=afterok:$jobs slurm.sh                # then does the other steps
#
# A job that was ended by the time limit is submitted again as it was: it goes on where it stopped.
#SBATCH --job-name=inferostatic
#SBATCH --cpus-per-task=2
#SBATCH --time=02:00:00
#SBATCH --signal=B:TERM@60

if [ -n "$SLURM_ARRAY_TASK_ID" ]; then
    exec inferostatic simulate . --parts "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
fi
exec inferostatic run .
