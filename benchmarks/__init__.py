"""Speed, as ratios against peers measured in the same run: one script per question."""
